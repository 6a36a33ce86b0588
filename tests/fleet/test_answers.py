"""What the reader of a stream takes for a token."""

from nodewise.fleet.load.answers import Streamed


def test_a_streamed_tool_call_is_a_token_and_no_error():
    reader = Streamed()
    reader.begin()
    call = b'{"index":0,"function":{"name":"look","arguments":"{}"}}'
    reader.feed(b'data: {"choices":[{"delta":{"tool_calls":[%b]}}]}\n\n' % call, 1.0)
    reader.feed(b"data: [DONE]\n\n", 2.0)
    assert reader.finish() == ""
    assert (reader.first, reader.output_tokens) == (1.0, 1)
