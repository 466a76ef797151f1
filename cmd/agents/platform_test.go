//go:build !windows

package main

import "testing"

func linked(*testing.M, map[string]func()) int { panic("not used") }

func toolMain() { panic("not used") }
