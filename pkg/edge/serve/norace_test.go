//go:build !race

package serve_test

const raceDetector = false
