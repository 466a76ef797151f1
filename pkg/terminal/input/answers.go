package input

import "github.com/agents-exe/agents/pkg/agent"

// The answers to the question whether a call may run.
const (
	AnswerYes     = "yes"
	AnswerNo      = "no"
	AnswerSession = "session"
	AnswerCall    = "call"
	AnswerFolder  = "folder"
)

// Answers returns the answers that a question permits, in the order in which they are
// offered. folder is whether answers are kept for later runs in the folder.
func Answers(q *agent.Event, folder bool) []string {
	list := []string{AnswerYes, AnswerNo}
	if q.Reviewer == "human" || q.Approval == "always" {
		return list
	}
	if list = append(list, AnswerSession, AnswerCall); folder {
		list = append(list, AnswerFolder)
	}
	return list
}

// AboutAnswer says what an answer means for calls of a tool.
func AboutAnswer(answer, tool string) string {
	switch answer {
	case AnswerYes:
		return "this call, and the same call again in this run"
	case AnswerNo:
		return "not this call; text after it is a reason for the model"
	case AnswerSession:
		return "every call of " + tool + " in this session"
	case AnswerCall:
		return "every call of " + tool + " with these arguments in this session"
	}
	return "every call of " + tool + " in this folder, in later runs too"
}
