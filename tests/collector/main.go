// SPDX-License-Identifier: Apache-2.0
// The OpenTelemetry collector with only what tests/e2e/trace/test_trace_collector.py asks of it: it takes OTLP and hands it on by HTTP.
package main

import (
	"log"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func factories() (all otelcol.Factories, err error) {
	all.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err == nil {
		all.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](otlphttpexporter.NewFactory())
	}
	return all, err
}

func main() {
	configs := confmap.ResolverSettings{DefaultScheme: "yaml", ProviderFactories: []confmap.ProviderFactory{yamlprovider.NewFactory()}}
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo:              component.BuildInfo{Command: "collector", Description: "OpenTelemetry Collector", Version: "0.120.0"},
		Factories:              factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: configs},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
