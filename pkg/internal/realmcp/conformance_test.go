package realmcp

const scenarioVariable = "MCP_CONFORMANCE_SCENARIO"

func conformanceClient() int { return 0 }
