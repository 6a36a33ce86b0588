#!/bin/sh
# The tests of the pages need a real browser; this gets Debian's, where it may.
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  command -v "$name" >/dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null && exit 0
fi
echo "No Chromium here, so the tests of the pages are skipped. To run them: apt-get install chromium"
