package main

import (
	"context"
	"fmt"
)

func Example() {
	main()
	// Output:
	// The model is asked.
	// It calls set_lamp {"on":true}
	// The model is asked.
	// It answers: I have switched the lamp.
	// The lamp is on: true
}

// The program ends what the model would not.
func Example_noStepLeft() {
	lamp := &lamp{}
	err := drive(context.Background(), lamp, "Make it flicker.")
	fmt.Println("error:", err)
	// Output:
	// The model is asked.
	// It calls set_lamp {"on":true}
	// The model is asked.
	// It calls set_lamp {"on":true}
	// The model is asked.
	// It calls set_lamp {"on":true}
	// The model is asked.
	// It calls set_lamp {"on":true}
	// The model is asked.
	// It calls set_lamp {"on":true}
	// error: there is no answer yet, and no step left
}
