#!/bin/sh
# The tests of the engine 'ssh' need a server to log in to; this gets Debian's, where it may.
PATH=$PATH:/usr/sbin command -v sshd >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends openssh-server openssh-client >/dev/null && exit 0
fi
echo "No sshd here, so its tests are skipped. To run them: apt-get install openssh-server"
