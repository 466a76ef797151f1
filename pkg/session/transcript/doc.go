// Package transcript formats the events of a session for people and other programs:
// as a summary, Markdown, a page of HTML, the messages of a chat completions
// request, a session of agents-exe; and edits them.
//
// The input is a sequence of events, as session.Events reads it from a journal or
// [Read] from JSON lines. [Summarize] goes through it once. [Turns]
// divides it into the turns of the root session, each with its calls and the
// sub-agents' sessions that answered them. One turn is in memory at a time, so a
// session may have any length.
//
//	for turn, err := range transcript.Turns(events) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(markdown.Turn(turn))
//	}
//
// If a sequence ends with an error (a damaged journal), the functions return what was
// read before it, then the error.
//
// Text of models, tools and people is data: it cannot change the rest of a document.
// But Markdown keeps terminal control sequences: callers that print it on a terminal
// must remove them.
package transcript
