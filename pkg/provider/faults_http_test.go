package provider_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agents-exe/agents/pkg/agent"
	"github.com/agents-exe/agents/pkg/internal/modeltest"
	"github.com/agents-exe/agents/pkg/provider/modelhttp"
)

func TestTraceparentHeader(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		var got []string
		p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.Header.Values("traceparent")...)
			io.WriteString(w, pr.answer("hi"))
		})
		for _, trace := range []string{"", trace} {
			if _, err := p.Generate(t.Context(), &agent.Request{Messages: modeltest.Hello.Messages, Trace: trace}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) != 1 || got[0] != trace {
			t.Errorf("headers of a request without and one with a trace: %q, want %q", got, trace)
		}
	})
}

func TestErrorStatuses(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		tests := []struct {
			name      string
			status    int
			body      string
			header    string
			want      string
			temporary bool
			wait      time.Duration
		}{
			{name: "408", status: 408, body: `{"error":{"message":"slow"}}`, want: "HTTP 408: slow", temporary: true},
			{name: "409", status: 409, body: `{"error":{"message":"lock"}}`, want: "HTTP 409: lock", temporary: true},
			{name: "429", status: 429, body: `{"error":{"message":"slow down","code":"rate_limit_exceeded","type":"tokens"}}`, header: "Retry-After: 7", want: "HTTP 429 (rate_limit_exceeded): slow down", temporary: true, wait: 7 * time.Second},
			{name: "429 permanent", status: 429, body: `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, want: "HTTP 429 (insufficient_quota): You exceeded your current quota"},
			{name: "429 permanent by its type", status: 429, body: `{"error":{"message":"pay","type":"insufficient_quota","code":null}}`, want: "HTTP 429 (insufficient_quota): pay"},
			{name: "500", status: 500, body: `{"error":{"message":"oops"}}`, want: "HTTP 500: oops", temporary: true},
			{name: "503 with a page", status: 503, body: "<html><head><style>p{}</style><title>503</title></head><body><p>No &amp; healthy upstream</p></body></html>", header: "Retry-After-Ms: 1500", want: "HTTP 503: 503 No & healthy upstream", temporary: true, wait: 1500 * time.Millisecond},
			{name: "529", status: 529, body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, want: "HTTP 529 (overloaded_error): Overloaded", temporary: true},
			{name: "400", status: 400, body: `{"error":{"message":"no such model","type":"invalid_request_error","param":"model","code":"model_not_found"}}`, want: "HTTP 400 (model_not_found): no such model"},
			{name: "401 text", status: 401, body: `{"error":"bad key"}`, want: "HTTP 401: bad key"},
			{name: "402 numeric code", status: 402, body: `{"error":{"message":"no credits","code":402}}`, want: "HTTP 402: no credits"},
			{name: "403 plain text", status: 403, body: "forbidden\x1b[31m\r\nhere", want: "HTTP 403: forbidden[31m here"},
			{name: "404 empty", status: 404, want: "HTTP 404: Not Found"},
			{name: "418 unknown form", status: 418, body: `{"reason":"teapot"}`, want: `HTTP 418: {"reason":"teapot"}`},
			{name: "422 FastAPI", status: 422, body: `{"detail":[{"loc":["body","tools",0],"msg":"field required","type":"value_error"}]}`, want: "HTTP 422: body.tools.0: field required"},
			{name: "422 Mistral", status: 422, body: `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","x"],"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error","code":3001}`, want: "HTTP 422 (3001): body.x: Extra inputs are not permitted"},
			{name: "400 detail text", status: 400, body: `{"detail":"too long"}`, want: "HTTP 400: too long"},
			{name: "400 message", status: 400, body: `{"message":"too long"}`, want: "HTTP 400: too long"},
			{name: "400 JSON string", status: 400, body: `"too \"long\""`, want: `HTTP 400: too "long"`},
			{name: "400 Gemini", status: 400, body: `[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]`, want: "HTTP 400: API key not valid"},
			{name: "400 OpenRouter", status: 400, body: `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"e\":\"context too long\"}","provider_name":"X"}}}`, want: `HTTP 400: Provider returned error: {"e":"context too long"}`},
			{name: "400 deeply nested", status: 400, body: `{"error":[[[[["what nobody reads"]]]]]}`, want: `HTTP 400: {"error":[[[[["what nobody reads"]]]]]}`},
			{name: "400 key in the text", status: 400, body: `{"error":{"message":"Incorrect API key provided: ` + secret + `"}}`, want: "HTTP 400: Incorrect API key provided: [secret]"},
			{name: "200 with half the JSON of an error", status: 400, body: `{"error":{"mess`, want: `HTTP 400: {"error":{"mess`},
			{name: "Retry-After as a date in the past", status: 429, header: "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT", want: "HTTP 429: Too Many Requests", temporary: true},
			{name: "Retry-After too long", status: 429, header: "Retry-After: 1e300", want: "HTTP 429: Too Many Requests", temporary: true, wait: 24 * time.Hour},
			{name: "Retry-After nonsense", status: 429, header: "Retry-After: soon", want: "HTTP 429: Too Many Requests", temporary: true},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				requests := 0
				p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
					requests++
					if name, value, ok := strings.Cut(tt.header, ": "); ok {
						w.Header().Set(name, value)
					}
					w.WriteHeader(tt.status)
					io.WriteString(w, tt.body)
				})
				p.Key = key
				_, _, err := ask(t, p)
				e := modeltest.ModelError(t, err)
				if requests != 1 {
					t.Errorf("%d requests, want 1", requests)
				}
				if e.Error() != tt.want || e.Temporary != tt.temporary || e.RetryAfter != tt.wait || e.Status != tt.status {
					t.Errorf("error = %q, temporary %v, wait %v, status %d\n want   %q, temporary %v, wait %v, status %d",
						e, e.Temporary, e.RetryAfter, e.Status, tt.want, tt.temporary, tt.wait, tt.status)
				}
			})
		}
	})
}

// A conversation that does not fit is an error that compaction reacts to and that is not
// retried.
func TestTooLongConversations(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		const anthropic = `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`
		const openai = `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","code":"context_length_exceeded"}}`
		for _, tt := range []struct {
			status int
			body   string
		}{
			{400, anthropic}, {400, openai}, {413, `{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}`},
			{413, ""}, {200, modeltest.Events(pr.head, anthropic)}, {200, openai},
			{200, modeltest.Events(pr.head) + "event: error\n" + modeltest.Events(openai)},
		} {
			_, _, err := ask(t, pr.against(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			if e := modeltest.ModelError(t, err); !e.TooLong || e.Temporary {
				t.Errorf("%d %s: %q, too long %v, temporary %v", tt.status, tt.body, e, e.TooLong, e.Temporary)
			}
		}
	})
}

// A long error text is cut between characters.
func TestLongErrorTextsAreCut(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(400)
			io.WriteString(w, "a"+strings.Repeat("ü", 1<<20))
		})
		_, _, err := ask(t, p)
		if e := modeltest.ModelError(t, err); len(e.Message) > 2000+len("…") || !strings.HasSuffix(e.Message, "ü…") {
			t.Errorf("message of %d bytes: …%q", len(e.Message), e.Message[len(e.Message)-10:])
		}
	})
}

func TestTheKeyIsSentAndTheEnvironmentIsIgnored(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		for name, value := range map[string]string{
			"OPENAI_API_KEY": "env-key", "OPENAI_ADMIN_KEY": "env-admin", "OPENAI_ORG_ID": "env-org", "OPENAI_PROJECT_ID": "env-project",
			"OPENAI_BASE_URL": "http://127.0.0.1:1/env", "OPENAI_CUSTOM_HEADERS": "X-Env: env-header", "OPENAI_WEBHOOK_SECRET": "env-hook",
			"ANTHROPIC_API_KEY": "env-key", "MISTRAL_API_KEY": "env-key",
		} {
			t.Setenv(name, value)
		}
		var got http.Header
		p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
			got = r.Header.Clone()
			io.WriteString(w, pr.answer("x"))
		})
		for _, key := range []func() string{nil, func() string { return "" }, key} {
			p.Key = key
			if _, _, err := ask(t, p); err != nil {
				t.Fatal(err)
			}
			for name, form := range pr.keyHeaders {
				want := ""
				if key != nil && key() != "" {
					want = fmt.Sprintf(form, key())
				}
				if got.Get(name) != want {
					t.Errorf("%s = %q, want %q", name, got.Get(name), want)
				}
			}
			for name, values := range got {
				if strings.Contains(strings.Join(values, " "), "env") || strings.HasPrefix(name, "Openai-") {
					t.Errorf("header %s: %q comes from the environment", name, values)
				}
			}
		}
		if s := fmt.Sprintf("%v %+v %#v", pr.open(p.Settings), pr.open(p.Settings), p.Settings); strings.Contains(s, secret) {
			t.Errorf("a printed Provider shows the key: %s", s)
		}
	})
}

func TestRedirectsToAnotherHostAreRefused(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			t.Errorf("the other server was asked, with Authorization %q", r.Header.Get("Authorization"))
		}))
		defer elsewhere.Close()
		for _, status := range []int{301, 302, 303, 307, 308} {
			p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere.URL+"/v1/chat/completions?token="+secret, status)
			})
			p.Key = key
			_, _, err := ask(t, p)
			e := modeltest.ModelError(t, err)
			want := fmt.Sprintf("HTTP %d: %s redirects to another server, %s; this is not followed, so that no key goes there", status, strings.TrimPrefix(p.BaseURL, "http://"), elsewhere.URL)
			if e.Error() != want || e.Temporary {
				t.Errorf("error = %q, want %q", e, want)
			}
		}
	})
}

func TestRedirectsWithinTheHost(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		for status, works := range map[int]bool{302: false, 307: true, 308: true} {
			p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.URL.Path, "/new/") {
					http.Redirect(w, r, "/new"+r.URL.Path, status)
					return
				}
				if body, _ := io.ReadAll(r.Body); r.Method != "POST" || len(body) == 0 || r.Header.Get("Authorization") == "" {
					t.Errorf("%d: %s with %d bytes", status, r.Method, len(body))
				}
				io.WriteString(w, pr.answer("x"))
			})
			p.Key = key
			_, _, err := ask(t, p)
			if works != (err == nil) {
				t.Errorf("%d: %v", status, err)
			}
		}
	})
}

func TestBrokenConnectionsAreTemporary(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		hang := func(w http.ResponseWriter, after string, reset bool) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			io.WriteString(conn, after)
			if reset {
				conn.(*net.TCPConn).SetLinger(0)
			}
			conn.Close()
		}
		head := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
		chunk := pr.begin("Hel")
		chunked := fmt.Sprintf("%x\r\n%s\r\n", len(chunk), chunk)
		tests := map[string]http.HandlerFunc{
			"closed before the answer": func(w http.ResponseWriter, r *http.Request) { hang(w, "", false) },
			"closed in the answer":     func(w http.ResponseWriter, r *http.Request) { hang(w, head+chunked, false) },
			"reset in the answer": func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				hang(w, head+chunked, true)
			},
			"less than announced": func(w http.ResponseWriter, r *http.Request) {
				hang(w, "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{\"choices\":", false)
			},
		}
		for name, h := range tests {
			t.Run(name, func(t *testing.T) {
				p := pr.against(t, h)
				_, _, err := ask(t, p)
				e := modeltest.ModelError(t, err)
				if host := strings.TrimPrefix(p.BaseURL, "http://"); !e.Temporary || !strings.HasPrefix(e.Error(), host+" closed the connection") && !strings.Contains(e.Error(), "connection reset") {
					t.Errorf("error = %q, temporary %v", e, e.Temporary)
				}
			})
		}
		t.Run("refused", func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			_, _, err = ask(t, &model{pr, modelhttp.Settings{BaseURL: "http://" + l.Addr().String() + "?key=" + secret, Client: &http.Client{Transport: &http.Transport{}}}})
			e := modeltest.ModelError(t, err)
			if !e.Temporary || !strings.HasPrefix(e.Error(), l.Addr().String()+": ") || !strings.HasSuffix(e.Error(), "connection refused") || strings.Contains(e.Error(), secret) {
				t.Errorf("error = %q, temporary %v", e, e.Temporary)
			}
		})
	})
}

func TestPermanentConnectionErrorsAreReadable(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		secure := httptest.NewUnstartedServer(http.NotFoundHandler())
		secure.Config.ErrorLog = log.New(io.Discard, "", 0)
		secure.StartTLS()
		defer secure.Close()
		plain := httptest.NewServer(http.NotFoundHandler())
		defer plain.Close()
		host := func(u string) string { return u[strings.Index(u, "//")+2:] }
		noHost := modeltest.RoundTripper(func(r *http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: r.URL.Hostname(), IsNotFound: true}}
		})
		tests := []struct {
			name, base string
			transport  http.RoundTripper
			want       string
		}{
			{"unknown certificate", secure.URL, &http.Transport{TLSClientConfig: &tls.Config{}}, "the certificate of " + host(secure.URL) + " cannot be trusted: "},
			{"no TLS", "https://" + host(plain.URL), &http.Transport{}, host(plain.URL) + " does not speak TLS; is its URL http instead of https?"},
			{"no host", "https://api.example.invalid/v1", noHost, "there is no host api.example.invalid"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				_, _, err := ask(t, &model{pr, modelhttp.Settings{BaseURL: tt.base, Client: &http.Client{Transport: tt.transport}}})
				if e := modeltest.ModelError(t, err); e.Temporary || !strings.HasPrefix(e.Error(), tt.want) {
					t.Errorf("error = %q, temporary %v; want %q", e, e.Temporary, tt.want)
				}
			})
		}
	})
}

// The network's timeouts look like the end of a context, but the run has not used
// up its time.
func TestNetworkTimeoutsAreNotTheDeadline(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		late := modeltest.RoundTripper(func(r *http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}
		})
		_, _, err := ask(t, &model{pr, modelhttp.Settings{BaseURL: "http://h", Client: &http.Client{Transport: late}}})
		if e := modeltest.ModelError(t, err); !e.Temporary || e.Error() != "h: dial tcp: context deadline exceeded" || agent.StatusOf(err) != agent.StatusFailed {
			t.Errorf("error = %q, temporary %v, status %s", e, e.Temporary, agent.StatusOf(err))
		}
	})
}

// The limit applies after decompression.
func TestCompressedAnswersAreBounded(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, pr.begin("x")+strings.Repeat(pr.text("x"), 100_000))
			z.Close()
		})
		p.MaxResponseBytes = 1 << 20
		_, _, err := ask(t, p)
		if e := modeltest.ModelError(t, err); e.Error() != "the answer is longer than 1048576 bytes (the limit of one answer)" {
			t.Errorf("error = %q", e)
		}
	})
}

func TestCancelEndsTheRequest(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		for _, when := range []string{"before the answer", "in the answer"} {
			t.Run(when, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				gone := make(chan struct{})
				p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					if when == "in the answer" {
						io.WriteString(w, pr.begin("Hel"))
						w.(http.Flusher).Flush()
					} else {
						cancel()
					}
					<-r.Context().Done()
					close(gone)
				})
				_, err := p.Generate(ctx, modeltest.Hello, func(agent.Delta) { cancel() })
				if !errors.Is(err, context.Canceled) || agent.StatusOf(err) != agent.StatusInterrupted {
					t.Errorf("error = %v, want context.Canceled", err)
				}
				<-gone
			})
		}
	})
}

func TestEndlessAnswersAreBounded(t *testing.T) {
	each(t, func(t *testing.T, pr protocol) {
		p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, modeltest.Events(pr.head, pr.start))
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, pr.text("more and more and more")); err != nil {
					return
				}
			}
		})
		p.MaxResponseBytes = 100_000
		_, shown, err := ask(t, p)
		if e := modeltest.ModelError(t, err); e.Temporary || e.Error() != "the answer is longer than 100000 bytes (the limit of one answer)" {
			t.Errorf("error = %q, temporary %v", e, e.Temporary)
		}
		if len(shown) > 100_000 {
			t.Errorf("%d bytes were shown", len(shown))
		}
	})
}

// Wherever the text of an error is cut, no useful part of the key is left.
func TestNoPartOfTheKeyIsInAnErrorThatIsCut(t *testing.T) {
	const key = "sk-proj-Zk3vQ9xL2mN8bV5cX1aS7dF4gH6jK0pQwE"
	each(t, func(t *testing.T, pr protocol) {
		for before := 2000 - len(key) - 2; before <= 2002; before += 3 {
			p := pr.against(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(400)
				io.WriteString(w, strings.Repeat("x", before)+" "+key+strings.Repeat(" y", 100))
			})
			p.Key = func() string { return key }
			_, _, err := ask(t, p)
			if text := modeltest.ModelError(t, err).Message; strings.Contains(text, key[:12]) {
				t.Errorf("%d bytes before the key: …%s", before, text[len(text)-60:])
			}
		}
	})
}
