package main

import (
	"context"
	"fmt"
)

func Example() {
	main()
	// Output:
	// May it call set_lamp {"on":true}? allow
	// The lamp is set: {"on":true}
	// It answers: I have switched the lamp.
}

// A call that is denied does not reach the program.
func Example_denied() {
	fmt.Println(direct(context.Background(), "deny"))
	// Output:
	// May it call set_lamp {"on":true}? deny
	// It answers: I was not allowed to.
	// <nil>
}
