// Command gen makes the figures of the built-in catalogs from tables in CSV. It makes data/aws.txt from a table of instance types and a table
// of the numbers of volumes that they hold, and data/azure.txt from a table of VM sizes:
//
//	go run ./provider/catalog/gen aws-instance-types.csv aws-ebs-attachments.csv > provider/catalog/data/aws.txt
//	go run ./provider/catalog/gen azure-vm-sizes.csv > provider/catalog/data/azure.txt
//
// It only shortens: the output has every row of the first table, with a dash for a missing price. Packages provider/aws/size and
// provider/azure/size compute the properties of nodes from the figures.
package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// columns are the figures of every type, in their order on its line.
var columns = []string{
	"instance_type", "on_demand_usd_hour_us_east_1", "arch", "cpu_manufacturer", "vcpus", "memory_mib", "clock_mhz",
	"hypervisor", "encryption_in_transit", "local_nvme_gb", "ebs_bandwidth_mbps", "network_bandwidth_mbps",
	"default_card_enis", "ipv4_per_eni", "branch_enis", "max_enis", "network_cards", "max_attachments", "limit_type",
}

// extras are the figures of few types. Each becomes one word, "gpu=1/t4/nvidia/16384".
var extras = map[string][]string{
	"gpu":         {"gpu_count", "gpu_name", "gpu_manufacturer", "gpu_memory_mib"},
	"accelerator": {"accelerator_count", "accelerator_name", "accelerator_manufacturer"},
	"neuron":      {"neuron", "neuroncore"},
	"efa":         {"efa"},
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(names []string, out io.Writer) error {
	if len(names) != 1 && len(names) != 2 {
		return errors.New("name a table of VM sizes, or two: of instance types, and of how many volumes they take")
	}
	var tables []io.Reader
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		tables = append(tables, bytes.NewReader(text))
	}
	if len(names) == 1 {
		return convertAzure(tables[0], out)
	}
	return convert(tables[0], tables[1], out)
}

func convert(types, attachments io.Reader, out io.Writer) error {
	rows, err := read(types)
	if err != nil {
		return fmt.Errorf("read the table of instance types: %w", err)
	}
	volumes, err := read(attachments)
	if err != nil {
		return fmt.Errorf("read the table of how many volumes they take: %w", err)
	}
	byName := map[string]map[string]string{}
	for _, row := range volumes {
		byName[row["instance_type"]] = row
	}
	lines := []string{}
	for _, row := range rows {
		maps.Copy(row, byName[row["instance_type"]])
		lines = append(lines, line(row))
	}
	slices.Sort(lines)
	_, err = fmt.Fprintf(out, "# %s [%s]\n%s\n", strings.Join(columns, " "),
		strings.Join(slices.Sorted(maps.Keys(extras)), " "), strings.Join(lines, "\n"))
	return err
}

// read returns the rows of a table. The keys are the names in its first row.
func read(in io.Reader) (out []map[string]string, err error) {
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) < 2 {
		return nil, errors.New("there is no row")
	}
	for _, row := range rows[1:] {
		field := map[string]string{}
		for i, name := range rows[0] {
			field[name] = row[i]
		}
		out = append(out, field)
	}
	return out, nil
}

func line(field map[string]string) string {
	words := []string{}
	if field["clock_mhz"] == "0" { // unknown for very old types
		field["clock_mhz"] = ""
	}
	for _, name := range columns {
		words = append(words, orDash(field[name]))
	}
	for _, extra := range slices.Sorted(maps.Keys(extras)) {
		parts := []string{}
		for _, name := range extras[extra] {
			parts = append(parts, orDash(field[name]))
		}
		if parts[0] != "-" {
			words = append(words, extra+"="+strings.Join(parts, "/"))
		}
	}
	return strings.Join(words, " ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
