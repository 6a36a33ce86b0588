#!/bin/sh
# Spark needs Java 17 or newer; this gets Debian's, where it may.
command -v java >/dev/null && exit 0
[ -n "$JAVA_HOME" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jre-headless >/dev/null && exit 0
fi
echo "No Java here, so the tests of Spark are skipped. To run them: apt-get install default-jre-headless"
