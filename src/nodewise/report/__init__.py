"""What a person sees. Results come in, renderables go out; nothing is written here."""
