package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
)

// busyTree has 100 nodes with 10,000 entries, of which 50 stream an answer.
func busyTree() (*Tree, []agent.Event) {
	var t Tree
	t.Apply(request("main"))
	var streams []agent.Event
	for i := range 99 {
		slug := fmt.Sprint("n", i)
		path := "main/" + slug
		t.Apply(started("main", slug))
		t.Apply(event(path, agent.EventMessage, agent.Event{Message: &agent.Message{Parts: []agent.Part{agent.Text("Read the files of this part and say what they do")}}}))
		for j := range 99 {
			t.Apply(started(path, fmt.Sprint(j)))
			t.Apply(ended(path, fmt.Sprint(j), "a line of a result", false))
		}
		t.Apply(request(path))
		switch {
		case i < 50:
			streams = append(streams, event(path, agent.EventText, agent.Event{Text: "a piece of the answer "}))
		case i < 75:
			t.Apply(event(path, agent.EventEnd, agent.Event{Status: agent.StatusOK}))
			t.Apply(ended("main", slug, "done", false))
		}
	}
	return &t, streams
}

func BenchmarkApply(b *testing.B) {
	t, streams := busyTree()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		t.Apply(streams[i%len(streams)])
		i++
	}
}

// BenchmarkLines draws the tree as it is while 50 agents stream, in 20 rows and in full.
func BenchmarkLines(b *testing.B) {
	t, streams := busyTree()
	for name, height := range map[string]int{"20 rows": 20, "all rows": 0} {
		b.Run(name, func(b *testing.B) {
			l := Layout{Width: 120, Height: height, Color: true, Now: time.Unix(100, 0)}
			b.ReportAllocs()
			for b.Loop() {
				t.Apply(streams[0])
				t.Lines(l)
			}
		})
	}
}

// The conversation of a node has no influence on how long its events and rows take: they
// look at no entry.
func TestLinesDoNotDependOnTheConversations(t *testing.T) {
	long, streams := busyTree()
	allocs := func(tree *Tree) float64 {
		return testing.AllocsPerRun(20, func() {
			tree.Apply(streams[0])
			tree.Lines(Layout{Width: 120, Height: 20})
		})
	}
	before := allocs(long)
	for i := range 10_000 {
		long.Apply(started("main/n0", fmt.Sprint("more", i)))
		long.Apply(ended("main/n0", fmt.Sprint("more", i), "a line of a result", false))
	}
	if after := allocs(long); after > 1.2*before {
		t.Errorf("%.0f allocations after 10,000 more entries, %.0f before", after, before)
	}
}
