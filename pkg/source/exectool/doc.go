// Package exectool runs executables as tools. Any executable that answers
// `<tool> describe` with a JSON object and does its work as `<tool> run ARGV…` is
// one; no shell is ever between it and the model.
//
//   - A [Description] is what an executable says of itself: [ParseDescription]
//     reads it, Description.Schema is what the model sees of its arguments, and
//     Description.Command translates the model's arguments into a command line
//     and standard input. The tool receives exactly the bytes that the model
//     sent, or the call is refused and says why.
//   - [Open] finds the executables of some [Source]s, folders or single files,
//     and makes a [Toolset] of them. Descriptions are kept on disk by the
//     executable's identity, so that a second start executes nothing. A broken
//     tool is a [Problem] and left out.
//   - A [Tool] is an agent.Tool. A call has a time limit, its memory is bounded
//     whatever the tool prints, and the model gets at most [MaxOutput] bytes of
//     it: head and tail, and a notice with the path of a file that holds the
//     whole.
//
// What is not fixed elsewhere is decided like this:
//
//   - stdout that is not UTF-8 is text with U+FFFD in place of the wrong bytes;
//     but where more than one byte in twenty is wrong, or one is NUL, it is data:
//     an attachment of application/octet-stream if it has at most MaxOutput
//     bytes, else only a file that the result names.
//   - With output-media-type, stdout that is base64 and nothing else is decoded.
//     For types of text, which can look like base64 by chance, only if it is long
//     and decodes to text. An attachment has at most [MaxMedia] bytes.
//   - A NUL byte is refused in every mode, standard input too: shells and most
//     tools would drop it silently.
//
// All tools of a folder:
//
//	set, err := exectool.Open(ctx, []exectool.Source{{Path: "tools"}},
//		exectool.Options{Environ: os.Environ(), CacheDir: dir})
//	a.Toolsets = append(a.Toolsets, set)
package exectool
