// Package expression computes settings of a node class's kubelet that are expressions of the instance type: "ips_per_eni * 2" pods,
// "memory_mib * 5 / 100" of reserved memory. The language is CEL. The callers decide which fields may hold an expression, and handle
// failures.
package expression

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Variables are the variables of an expression.
type Variables struct {
	InstanceType string
	VCPUs        int
	MemoryMiB    int64
	// DefaultENIs is the number of interfaces of the default network card, IPsPerENI the number of addresses of each.
	DefaultENIs, IPsPerENI int
	// MaxPods is the number of pods of a node. In the expression for maxPods itself, it is the default number; in all other expressions, it is
	// the number from the class's maxPods, or the default without one.
	MaxPods int
}

// Calculator computes expressions. It may be used from several goroutines.
type Calculator struct {
	environment *cel.Env

	mu       sync.Mutex // guards programs
	programs map[string]cel.Program
}

// programsKept is the largest number of compiled expressions that are kept.
const programsKept = 1000

// New makes a calculator.
func New() *Calculator {
	environment, err := cel.NewEnv(
		cel.Variable("instance_type", cel.StringType),
		cel.Variable("vcpus", cel.IntType),
		cel.Variable("memory_mib", cel.IntType),
		cel.Variable("default_enis", cel.IntType),
		cel.Variable("ips_per_eni", cel.IntType),
		cel.Variable("max_pods", cel.IntType),
		ofTwo("max", func(order types.Int) bool { return order > 0 }),
		ofTwo("min", func(order types.Int) bool { return order < 0 }),
	)
	if err != nil {
		panic("make the language of expressions: " + err.Error()) // the input is always the same
	}
	return &Calculator{environment: environment, programs: map[string]cel.Program{}}
}

// ofTwo makes a function that chooses one of two numbers. An int and a double give a double.
func ofTwo(name string, first func(order types.Int) bool) cel.EnvOption {
	choose := func(a, b ref.Val) ref.Val {
		order, ok := a.(interface{ Compare(ref.Val) ref.Val }).Compare(b).(types.Int)
		if !ok {
			return types.NewErr("%s: %v and %v cannot be compared", name, a, b)
		}
		if first(order) {
			return a
		}
		return b
	}
	asDouble := func(a, b ref.Val) ref.Val { return choose(a, b).ConvertToType(types.DoubleType) }
	overload := func(suffix string, a, b, result *cel.Type, f func(a, b ref.Val) ref.Val) cel.FunctionOpt {
		return cel.Overload(name+"_"+suffix, []*cel.Type{a, b}, result, cel.BinaryBinding(f))
	}
	return cel.Function(name,
		overload("int_int", cel.IntType, cel.IntType, cel.IntType, choose),
		overload("int_double", cel.IntType, cel.DoubleType, cel.DoubleType, asDouble),
		overload("double_int", cel.DoubleType, cel.IntType, cel.DoubleType, asDouble),
		overload("double_double", cel.DoubleType, cel.DoubleType, cel.DoubleType, asDouble),
	)
}

// Check returns an error if a text is not an expression with a number as its result.
func (c *Calculator) Check(text string) error {
	_, err := c.compile(text)
	return err
}

// Number computes an expression, and drops the fraction of a double.
func (c *Calculator) Number(text string, v Variables) (int64, error) {
	program, err := c.compile(text)
	if err != nil {
		return 0, err
	}
	out, _, err := program.Eval(map[string]any{
		"instance_type": v.InstanceType, "vcpus": v.VCPUs, "memory_mib": v.MemoryMiB,
		"default_enis": v.DefaultENIs, "ips_per_eni": v.IPsPerENI, "max_pods": v.MaxPods,
	})
	if err != nil {
		return 0, fmt.Errorf("expression %q for instance type %s: %w", text, v.InstanceType, err)
	}
	switch n := out.Value().(type) {
	case int64:
		return n, nil
	case float64:
		if math.IsNaN(n) || math.Abs(n) >= math.MaxInt64 {
			return 0, fmt.Errorf("expression %q for instance type %s gives %v, which is no number to use", text, v.InstanceType, n)
		}
		return int64(n), nil
	}
	return 0, fmt.Errorf("expression %q gives %v instead of a number", text, out)
}

// compile compiles an expression, or returns an earlier result. Errors are not kept.
func (c *Calculator) compile(text string) (cel.Program, error) {
	c.mu.Lock()
	program := c.programs[text]
	c.mu.Unlock()
	if program != nil {
		return program, nil
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("the expression is empty")
	}
	ast, issues := c.environment.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("expression %q: %s", text, firstLine(err.Error()))
	}
	if kind := ast.OutputType(); !kind.IsExactType(cel.IntType) && !kind.IsExactType(cel.DoubleType) {
		return nil, fmt.Errorf("expression %q gives a %s instead of a number", text, kind)
	}
	program, err := c.environment.Program(ast, cel.CostLimit(100_000))
	if err != nil {
		return nil, fmt.Errorf("expression %q: %w", text, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.programs) >= programsKept {
		clear(c.programs)
	}
	c.programs[text] = program
	return program, nil
}

// firstLine drops the lines in which CEL shows the position of an error.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
