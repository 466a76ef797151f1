#!/bin/sh
# The cities that a trip may go to.
set -eu
case ${1:-} in
describe)
	echo '{"slug": "plans", "description": "lists the cities of the next trip", "args": [], "effects": "none"}'
	;;
run)
	printf 'Oslo\nRome\n'
	;;
*)
	echo 'plans: usage: plans describe | plans run' >&2
	exit 2
	;;
esac
