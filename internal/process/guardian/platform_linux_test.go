package guardian

import (
	"os"
	"os/exec"
	"testing"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	for stat, want := range map[string]proc{
		"7 (sh) S 3 7 8 0 -1":            {7, 3, 7, 8, false},
		"7 (a) b) Z 1 (c)) Z 4 5 6 0 -1": {7, 4, 5, 6, true},
	} {
		if got, ok := parseStat(7, []byte(stat)); !ok || got != want {
			t.Errorf("%s: %+v, %v", stat, got, ok)
		}
	}
	for _, stat := range []string{"", "7 (sh", "7 (sh)", "7 (sh) S x 7", "7 (sh) S 3 7"} {
		if got, ok := parseStat(7, []byte(stat)); ok {
			t.Errorf("%q is read as %+v", stat, got)
		}
	}
}

func TestDescendants(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	firstByte(t, out)
	depth := map[int]int{os.Getpid(): 0}
	deepest := 0
	found, err := descendants()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		depth[p.pid] = depth[p.ppid] + 1
		if p.ppid == cmd.Process.Pid {
			deepest = depth[p.pid]
			if err := kill(p.pid); err != nil {
				t.Error(err)
			}
		}
	}
	if deepest != 2 {
		t.Errorf("the grandchild was found at depth %d", deepest)
	}
	_ = cmd.Wait()
}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
