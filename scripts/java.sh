#!/bin/sh
# Spark needs Java 17 or newer; this gets Debian's, where it may.
command -v java >/dev/null && exit 0
[ -n "$JAVA_HOME" ] && exit 0
"$(dirname "$0")"/apt.sh default-jre-headless && exit 0
echo "No Java here, so the tests of Spark are skipped. To run them: apt-get install default-jre-headless"
