package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"tenon.sh/provider/azure/price"
	"tenon.sh/provider/azure/size"
)

// azureHeader names the sources of the figures and the columns of a line.
const azureHeader = `# Sizes that Azure sells in East US. Capabilities, zones and spot prices: a dump of the resource SKU API and of the retail prices of
# 2026-08-01 (github.com/DarrenJohns/djtools-azure-vm-sku-locator, MIT licence). vCPUs, memory, GPUs of further sizes: the static list
# of kubernetes/autoscaler (Apache License 2.0). Disks of 20 sizes, and the lower of two prices: test data and price table of
# Azure/karpenter-provider-azure (Apache License 2.0). Prices are those of Linux, in USD per hour; where the data has that of Windows in
# its place, what the other sizes of the series cost for a core.
# name (Standard_...) on-demand spot vcpus[/available] memory_mib hyper-v_generations data_disks capabilities zones [gpus= temp= cache= nvme=]
# capabilities: a accelerated networking, e ephemeral system disk, h encryption at host, p premium storage, r arm64
`

func convertAzure(sizes io.Reader, out io.Writer) error {
	rows, err := read(sizes)
	if err != nil {
		return fmt.Errorf("read the table of VM sizes: %w", err)
	}
	correct(rows)
	lines := []string{}
	for _, row := range rows {
		lines = append(lines, azureLine(row))
	}
	slices.Sort(lines)
	_, err = fmt.Fprintf(out, "%s%s\n", azureHeader, strings.Join(lines, "\n"))
	return err
}

// correct replaces prices of Windows by prices of Linux.
func correct(rows []map[string]string) {
	prices, cores := map[string]price.Price{}, map[string]int{}
	for _, row := range rows {
		name := row["name"]
		prices[name] = price.Price{OnDemand: number(row["on_demand_usd_hour"]), Spot: number(row["spot_usd_hour"])}
		cores[name] = int(number(row["vcpu"]))
	}
	right := price.Corrected(prices, cores, func(name string) string {
		parsed, _ := size.ParseName(name)
		return parsed.Series
	})
	for _, row := range rows {
		if usd, wrong := right[row["name"]]; wrong {
			row["on_demand_usd_hour"] = strconv.FormatFloat(usd, 'f', -1, 64)
		}
	}
}

// number parses a figure; a text that is no number gives 0.
func number(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return n
}

func azureLine(field map[string]string) string {
	digits := func(name, prefix string) string {
		return strings.NewReplacer("+", "", prefix, "").Replace(field[name])
	}
	cores := field["vcpu"]
	if available := field["vcpu_available"]; available != "" && available != cores {
		cores += "/" + available
	}
	capabilities := ""
	for _, c := range []struct{ letter, column, value string }{
		{"a", "accelerated_networking", "true"}, {"e", "ephemeral_os_disk", "true"}, {"h", "encryption_at_host", "true"},
		{"p", "premium_io", "true"}, {"r", "arch", "arm64"},
	} {
		if field[c.column] == c.value {
			capabilities += c.letter
		}
	}
	words := []string{
		strings.TrimPrefix(field["name"], "Standard_"), orDash(field["on_demand_usd_hour"]), orDash(field["spot_usd_hour"]), cores,
		mebibytes(field["memory_gib"]), orDash(digits("hyperv", "V")), orDash(field["max_data_disks"]), orDash(capabilities),
		orDash(digits("zones", "")),
	}
	for _, extra := range [][2]string{{"gpus", "gpus"}, {"temp", "temp_disk_mib"}, {"cache", "cached_disk_bytes"}, {"nvme", "nvme_disk_mib"}} {
		if value := field[extra[1]]; value != "" && value != "0" {
			words = append(words, extra[0]+"="+value)
		}
	}
	return strings.Join(words, " ")
}

// mebibytes converts a number of GiB to whole MiB.
func mebibytes(gib string) string { return strconv.FormatFloat(number(gib)*1024, 'f', 0, 64) }
