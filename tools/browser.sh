#!/bin/sh
# Installs a browser for the tests of the dashboard's pages where there is none and the system's package manager may do it.
set -eu
for name in chromium chromium-browser google-chrome; do
	if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "tools/browser.sh: there is no Chromium, and this user cannot install one (apt-get install chromium)" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium >/dev/null
