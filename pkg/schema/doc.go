// Package schema compiles JSON Schemas and says in plain words where a document
// violates one.
//
// A [Schema] is compiled once and then validates two kinds of documents: short
// ones that came from a model ([Schema.Validate], with a [Violation] for every
// broken rule) and files that a person wrote ([Schema.Check], with a [Problem]
// for every line to change; unknown keys are warnings that name the nearest
// known one). [Checked] puts the validation of a tool's arguments before its Call.
//
//	s, err := schema.Compile("agent.schema.json", doc)
//	for _, p := range s.Check(file) {
//		fmt.Printf("%s:%s\n", path, p) // agent.json:3:5: contents.slug: got number 7, want string
//	}
//
// A schema may say in "patternErrorMessage", as editors understand it, what its
// "pattern" wants in words.
//
// Schemas come from outside: a $ref never opens a file or an address, formats are
// annotations, and what would take endless time or memory is refused before the
// comparison begins.
package schema
