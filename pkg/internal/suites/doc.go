// Package suites runs public collections of schemas, calls and commands: docs/suites.md has the
// figures. Nothing of them is in this repository; environment variables name copies, and tests
// without one are skipped:
//
//	JSON_SCHEMA_TEST_SUITE  a checkout of json-schema-org/JSON-Schema-Test-Suite
//	JSON_SCHEMA_BENCH       a checkout of guidance-ai/jsonschemabench
//	GORILLA                 a checkout of ShishirPatil/gorilla, for BFCL
//	COMMAND_GUARD           a checkout of Dicklesworthstone/destructive_command_guard
//	AGENT_DOJO              a checkout of ethz-spylab/agentdojo
//	OPEN_RESPONSES          a checkout of openresponses/openresponses with bun and zod in node_modules
//	SEMCONV_GENAI           a checkout of open-telemetry/semantic-conventions-genai
//	SWE_AGENT               a checkout of SWE-agent/SWE-agent
//
// Package acptest reads ACP_SCHEMA in the tests of the Agent Client Protocol.
package suites
