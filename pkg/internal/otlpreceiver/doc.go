// Package otlpreceiver tests what `agents` exports as spans with programs that others
// wrote: the OTLP receiver of the OpenTelemetry Collector takes what is posted, and the
// Go types of the protocol decode what is in a trace file. It is a module of its own,
// so that the program does not depend on either. AGENTS_TEST_OTLP is the path of the
// program:
//
//	cd pkg/internal/otlpreceiver && AGENTS_TEST_OTLP=$OLDPWD/build/agents go test .
package otlpreceiver
