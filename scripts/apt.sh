#!/bin/sh
# scripts/apt.sh PACKAGE...: installs Debian packages as root; waits up to five minutes while another apt-get runs.
# Exit 1 without root or without apt-get.
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 1
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1  # no service starts: none has a configuration
for try in 1 2 3 4 5 6 7 8 9 10; do
  apt-get update -qq && break
  sleep 6
done
exec apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >/dev/null
