#!/bin/sh
# The tests of the pages need a real browser; this gets Debian's, where it may.
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  command -v "$name" >/dev/null && exit 0
done
"$(dirname "$0")"/apt.sh chromium fonts-liberation && exit 0
echo "No Chromium here, so the tests of the pages are skipped. To run them: apt-get install chromium"
