package command

import (
	"runtime"
	"testing"
)

func TestWiden(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("Linux only")
	}
	var p pipes
	if err := p.open(false); err != nil {
		t.Fatal(err)
	}
	defer p.closeAll()
	const size = 256 << 10
	widen(p.out.read, size)
	written := make(chan int, 1)
	go func() {
		n, _ := p.out.write.Write(make([]byte, size))
		written <- n
	}()
	if n := <-written; n != size { // without a reader an ordinary pipe holds 64 KiB
		t.Errorf("it holds %d bytes", n)
	}
}
