#!/bin/sh
# The tests of the engine 'ssh' need a server to log in to; this gets Debian's, where it may.
PATH=$PATH:/usr/sbin command -v sshd >/dev/null && exit 0
"$(dirname "$0")"/apt.sh openssh-server openssh-client && exit 0
echo "No sshd here, so its tests are skipped. To run them: apt-get install openssh-server"
