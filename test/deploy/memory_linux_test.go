package deploy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"turnstile/internal/protocol/rediskey"
	"turnstile/internal/protocol/wire"
	"turnstile/test/expect"
	"turnstile/test/program"
	"turnstile/test/redistest"
)

// memoryMost is the memory of a small container, in KiB, and of the gateway's in docker-compose.yml.
const memoryMost = 512 << 10

// The environment has the memory limit that the program sets in a container of this size.
const memoryLimit = "GOMEMLIMIT=460MiB"

var listensOn = regexp.MustCompile(`addr=(\S+)`)

// peak is the most memory that a process has had, in KiB.
func peak(t *testing.T, p *program.Process) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	expect.OK(t, err)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("process %d has ended:\n%s", p.Process.Pid, text)
	}
	n, err := strconv.Atoi(string(found[1]))
	expect.OK(t, err)
	return n
}

// listOf is a list of empty objects, about 2 MB long.
var listOf = sync.OnceValue(func() string { return "[{}" + strings.Repeat(",{}", 680_000) + "]" })

// smallGateway is a gateway in a small container.
func smallGateway(t *testing.T, server *redistest.Server) (p *program.Process, addr string) {
	t.Helper()
	p = program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/gateway"), []string{
		"REDIS_URL=" + server.URL(), memoryLimit,
	}, "--addr", "127.0.0.1:0"))
	p.Output.Until(t, "its address", listensOn.MatchString)
	return p, listensOn.FindStringSubmatch(p.Output.String())[1]
}

// The gateway survives bodies that would take a hundred times their size, and senders of large bodies
// and forms that never end.
func TestGatewayInASmallContainer(t *testing.T) {
	t.Parallel()
	p, addr := smallGateway(t, redistest.StartServer(t))
	post := func(path, body string) (int, error) {
		response, err := http.Post("http://"+addr+path, "application/json", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	var all sync.WaitGroup
	for i := range 10 {
		for path, body := range map[string]string{
			fmt.Sprintf("/v1/sessions/s%d/messages", i): `{"text":"a","attachments":` + listOf() + `}`,
			"/v1/responses":        `{"input":` + listOf() + `}`,
			"/v1/chat/completions": `{"messages":` + listOf() + `}`,
		} {
			all.Go(func() {
				if status, err := post(path, body); err != nil || status != http.StatusBadRequest && status != http.StatusServiceUnavailable {
					t.Errorf("%s: %d, %v", path, status, err)
				}
			})
		}
	}
	all.Wait()

	const slow = 400
	refused := make(chan bool, slow)
	for i := range slow {
		target, kind := "/v1/messages", "application/json"
		if i%2 == 1 {
			target, kind = "/board/s/s/send", "application/x-www-form-urlencoded"
		}
		all.Go(func() {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			const length, sent = 2_000_000, 1_900_000
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", target, kind, length)
			if _, err := io.WriteString(conn, strings.Repeat("a", sent)); err != nil {
				refused <- true
				return
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				refused <- true
				return
			}
			_ = response.Body.Close()
			refused <- response.StatusCode == http.StatusServiceUnavailable // others after 10 s: 408
		})
	}
	expect.Equal(t, "the first that is refused", <-refused, true)
	expect.Soon(t, "a small request in between", func() bool {
		status, err := post("/v1/sessions/s/messages", `{"text":"a"}`)
		return err == nil && (status == http.StatusAccepted || status == http.StatusOK)
	})
	all.Wait()
	if n := peak(t, p); n > memoryMost {
		t.Errorf("the gateway has had %d KiB", n)
	}
}

// A request that waits does not hold its message.
func TestWaitsInASmallContainer(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	p, addr := smallGateway(t, server)
	rdb, text, picture := server.Client(), strings.Repeat("a", 1_000_000), "data:image/png;base64,"+strings.Repeat("A", 900_000)
	input := `[{"role":"user","content":[{"type":"input_text","text":"` + text + `"},{"type":"input_image","image_url":"` + picture + `"}]}]`
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i, request := range slices.Repeat([]struct{ path, body string }{
		{"/v1/responses", `{"input":` + input + `}`},
		{"/v1/responses", `{"stream":true,"input":` + input + `}`},
		{"/v1/responses", `{"metadata":{"a":"b"},"input":` + input + `}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":[{"type":"text","text":"` + text + `"},{"type":"image_url","image_url":{"url":"` + picture + `"}}]}]}`},
		{"/v1/messages", `{"text":"` + text + `","attachments":[{"name":"a.png","mime":"image/png","url":"` + picture + `"}]}`},
	}, 70) {
		ask := func() (again bool) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+request.path, strings.NewReader(request.body))
			if err != nil {
				t.Error(err)
				return false
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Prefer", "wait=60")
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				slow := errors.Is(err, net.ErrClosed)
				if ctx.Err() == nil && !slow {
					t.Error(err)
				}
				return slow
			}
			data, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			slow := response.StatusCode == http.StatusRequestTimeout
			if err == nil && response.StatusCode != http.StatusAccepted && !slow { // Prefer's minute is over
				t.Errorf("%s did not wait: %d %.300s", request.path, response.StatusCode, data)
			}
			return slow
		}
		all.Go(func() {
			for ask() { // a busy machine did not send it within the 10 s that a gateway reads
			}
		})
		expect.Soon(t, "the message", func() bool { return rdb.ZCard(t.Context(), rediskey.Sessions).Val() == int64(i+1) })
	}
	if n := peak(t, p); n > memoryMost/2 { // 80 MB
		t.Errorf("the gateway has had %d KiB", n)
	}
}

// A worker survives twenty messages at once that would take a hundred times their size.
func TestWorkerInASmallContainer(t *testing.T) {
	t.Parallel()
	server := redistest.StartServer(t)
	rdb := server.Client()
	const messages = 20
	payload := []byte(`{"v":1,"text":"a","attachments":` + listOf() + `}`)
	for i := range messages {
		key := fmt.Sprint("s", i)
		_, err := asynq.NewClientFromRedisClient(rdb).EnqueueContext(t.Context(), asynq.NewTask(wire.TaskType, payload), asynq.Queue(rediskey.Queue(key)))
		expect.OK(t, err)
		expect.OK(t, rdb.ZAdd(t.Context(), rediskey.Sessions, redis.Z{Member: key}).Err())
	}
	p := program.Start(t, program.Command(t, program.Build(t, "turnstile/cmd/worker"), []string{
		"REDIS_URL=" + server.URL(), memoryLimit, "TURNSTILE_AGENT=echo", "TURNSTILE_CONCURRENCY=" + strconv.Itoa(messages), "TURNSTILE_SWEEP_INTERVAL=1s",
	}))
	expect.Soon(t, "the dead letters", func() bool {
		var dead int64
		for i := range messages {
			dead += rdb.ZCard(t.Context(), rediskey.For(fmt.Sprint("s", i)).Archived()).Val()
		}
		return dead == messages
	})
	if n := peak(t, p); n > memoryMost {
		t.Errorf("the worker has had %d KiB", n)
	}
}
