package lend_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/lend"
)

// BenchmarkManyProgramsStream has 100 programs read an answer at the same time, each with an
// endpoint of its own. The memory is that of the process, with the programs and the model's server.
func BenchmarkManyProgramsStream(b *testing.B) {
	const programs = 100
	for b.Loop() {
		answer := answers[agent.ProtocolChat][true]
		first, rest, _ := strings.Cut(answer, "\n\n")
		enough := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, first+"\n\n")
			w.(http.Flusher).Flush()
			<-enough
			io.WriteString(w, rest)
		}))
		memory := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapInuse + m.StackInuse
		}
		before := memory()
		var all, streaming sync.WaitGroup
		streaming.Add(programs)
		for range programs {
			all.Go(func() {
				ready := sync.OnceFunc(streaming.Done)
				defer ready()
				run(b, model(agent.ProtocolChat, s.URL), nil, func(ctx context.Context, e *lend.Endpoint) {
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, environ(e, "OPENAI_BASE_URL")+"/chat/completions", strings.NewReader(body(agent.ProtocolChat, true)))
					if err != nil {
						b.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer "+environ(e, "OPENAI_API_KEY"))
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						b.Error(err)
						return
					}
					defer resp.Body.Close()
					piece := make([]byte, 10)
					if _, err := io.ReadFull(resp.Body, piece); err != nil {
						b.Error(err)
					}
					ready()
					got, err := io.ReadAll(resp.Body)
					if text := string(piece) + string(got); err != nil || !strings.HasSuffix(text, "[DONE]\n\n") {
						b.Errorf("%v %s", err, text)
					}
				})
			})
		}
		streaming.Wait()
		b.ReportMetric(float64(memory()-before)/programs/1024, "KiB/program")
		close(enough)
		all.Wait()
		s.Close()
	}
}
