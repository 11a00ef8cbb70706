package cli

import (
	"fmt"
	"runtime/debug"
	"syscall"

	"k8s.io/apimachinery/pkg/api/resource"
)

// leastMemory is below what no simulation can begin.
const leastMemory = 64 << 20

// readMemoryLimit reads what a flag says, in bytes; 0 for nothing.
func readMemoryLimit(flag, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	q, err := resource.ParseQuantity(text)
	if err != nil || q.Value() < leastMemory {
		return 0, fmt.Errorf("%s %s: it is an amount of memory, such as 2Gi, 64Mi at least", flag, text)
	}
	return q.Value(), nil
}

// limitMemory has Go collect garbage so that nine tenths of the limit are enough, and the system refuse what is beyond the whole of it.
// What counts is what the process can write to: Go reserves far more addresses than it uses.
func (o *simulateOptions) limitMemory() error {
	bytes, err := readMemoryLimit("--memory-limit", o.memory)
	if err != nil || bytes == 0 {
		return err
	}
	debug.SetMemoryLimit(bytes / 10 * 9)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("--memory-limit: %w", err)
	}
	if limit.Cur = uint64(bytes); limit.Max < limit.Cur {
		limit.Cur = limit.Max
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return fmt.Errorf("--memory-limit: %w", err)
	}
	return nil
}
