// Package transcript turns the events of a session into what people and other
// programs read: a summary, Markdown, a page of HTML, the messages of a chat
// completions request, a session of agents-exe; and edits them.
//
// Everything begins with a sequence of events, as session.Events reads it from a
// journal or [Read] from JSON lines. [Summarize] goes through it once. [Turns]
// divides it into the turns of the root session, each with its calls and the
// sub-agents' sessions that answered them: one turn is in memory at a time, so a
// session may be as long as it likes.
//
//	for turn, err := range transcript.Turns(events) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(markdown.Turn(turn))
//	}
//
// A sequence that ends with an error (a damaged journal) gives what could be read
// first, then the error.
//
// What models, tools and people wrote is data. It cannot leave the place that a
// document gives it, but control sequences for terminals stay in Markdown: who
// prints it on a terminal takes them out.
package transcript
