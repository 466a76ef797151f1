// Package realmcp tests the program with third-party servers and clients, mostly of MCP,
// as separate processes:
//
//   - servers_test.go: the reference servers "everything", "filesystem" and
//     "memory" in runs of an agent;
//   - inspector_test.go: the Inspector's command line as a client of
//     `agents mcp-server` and `agents serve`;
//   - conformance_test.go: the protocol's conformance suite, as a server that an
//     agent uses and as a client of `agents mcp-server`;
//   - acp_test.go: the example client and the example agent of the Agent Client
//     Protocol's SDK, with `agents acp` between them, and an editor and a coding agent
//     made with the SDK (testdata), and programs of the draft of version 2;
//     acp_schema_test.go compares the messages of version 1 with the protocol's schema;
//   - openai_test.go: OpenAI's library as a client of `agents serve`;
//   - anthropic_test.go: Anthropic's library beside the provider of its protocol;
//   - responses_test.go: OpenAI's library beside the provider of the Responses protocol;
//   - page_test.go: a page in Chromium as a client of `agents serve`.
//
// `make test-mcp` installs them (see file install) and runs the tests. Otherwise the
// tests are skipped: they need npm packages and take minutes.
package realmcp
