#!/bin/sh
# count_words: the number of words in a text.
if [ "$1" = describe ]; then
	cat <<'END'
{
  "slug": "count_words",
  "description": "Counts the words of a text.",
  "args": [{"name": "text", "description": "The text.", "type": "text", "backing_type": "string", "arity": "single", "mode": "stdin"}],
  "effects": "none"
}
END
	exit
fi
echo "$(($(wc -w))) words"
