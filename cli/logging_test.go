package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestTheLogTellsOfTheClusterUnlessDebuggingIsAskedFor(t *testing.T) {
	t.Parallel()
	for level, lines := range map[string]int{"info": 2, "debug": 4} {
		var out bytes.Buffer
		opt := DefaultControllerOptions()
		opt.LogLevel = level
		log, err := newLogger(opt, &out)
		if err != nil {
			t.Fatal(err)
		}
		log = log.WithValues("NodeClaim", "a")
		log.Info("launched machine")
		log.Info("Starting EventSource")
		log.Error(errors.New("leader election lost"), "error received after stop sequence was engaged")
		log.Error(errors.New("quota"), "launch failed")
		if got := strings.Count(out.String(), "\n"); got != lines {
			t.Errorf("%s: %d lines, want %d:\n%s", level, got, lines, out.String())
		}
		if strings.Contains(out.String(), `:""`) {
			t.Errorf("%s: a field says nothing:\n%s", level, out.String())
		}
	}
}

// Parsers treat a JSON object with duplicate keys differently: some use the first value, some the last.
func TestEveryKeyOfALogLineStandsOnce(t *testing.T) {
	t.Parallel()
	for level, keys := range map[string][]string{"info": {"level", "time", "logger", "message"}, "debug": {"level", "time", "logger", "message", "caller"}} {
		var out bytes.Buffer
		opt := DefaultControllerOptions()
		opt.LogLevel = level
		log, err := newLogger(opt, &out)
		if err != nil {
			t.Fatal(err)
		}
		log.WithName("x").WithValues("logger", "y").Info("readiness changed", "message", "no class", "level", "high", "time", "late", "caller", "me")
		for _, key := range keys {
			if strings.Count(out.String(), `"`+key+`":`) != 1 || strings.Count(out.String(), `"`+key+`_":`) != 1 {
				t.Errorf("%s: key %s does not stand once:\n%s", level, key, out.String())
			}
		}
	}
}
