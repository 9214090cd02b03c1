import Foundation
import TestSupport
import Testing

@testable import CloakroomConfig
@testable import CloakroomCore

@Suite struct TracingConfigurationTests {
    private func tracing(
        _ yaml: String = "", environment: [String: String] = [:], overrides: [(key: String, value: String)] = []
    ) throws -> TracingConfiguration {
        try ConfigFixture(ConfigFixture.good + yaml).load(environment: environment, overrides: overrides).configuration
            .tracing
    }

    private func valueErrors(_ yaml: String = "", environment: [String: String] = [:]) throws -> [String] {
        try ConfigFixture(ConfigFixture.good + yaml).valueErrors(environment: environment)
    }

    @Test func withoutAWordThereAreNoTraces() throws {
        try expect(tracing(), equals: TracingConfiguration())
    }

    @Test func everyKeyCanBeSet() throws {
        let configuration = try tracing(
            """
            tracing:
              exporter: otlp
              sampler: always_on
              ratio: 0.5
              serviceName: front door
              resourceAttributes: [deployment.environment.name=test, k8s.pod.name=a=b, empty=]
              otlp:
                endpoint: HTTPS://[::1]:4318/v1/traces
                headers: [x-api-key=a b=, Other=c]
                queueLimit: 10
                interval: 100ms

            """)
        expect(
            configuration,
            equals: TracingConfiguration(
                exporter: .otlp, sampler: SamplerConfiguration(root: .alwaysOn, ratio: 0.5, isParentBased: false),
                serviceName: "front door",
                resourceAttributes: [
                    .init(name: "deployment.environment.name", value: "test"),
                    .init(name: "k8s.pod.name", value: "a=b"), .init(name: "empty", value: ""),
                ],
                otlp: OTLPConfiguration(
                    endpoint: "https://[::1]:4318/v1/traces",
                    headers: [
                        .init(name: "x-api-key", value: Secret("a b=")), .init(name: "Other", value: Secret("c")),
                    ], queueLimit: 10, batchLimit: 10, interval: .milliseconds(100))))
    }

    @Test(arguments: [
        ("always_on", SamplerConfiguration.Root.alwaysOn, false), ("always_off", .alwaysOff, false),
        ("traceidratio", .traceIDRatio, false), ("parentbased_always_on", .alwaysOn, true),
        ("parentbased_always_off", .alwaysOff, true), ("parentbased_traceidratio", .traceIDRatio, true),
    ])
    func eachSamplerIsKnownByItsName(_ name: String, _ root: SamplerConfiguration.Root, _ isParentBased: Bool) throws {
        let sampler = try tracing(environment: ["OTEL_TRACES_SAMPLER": name]).sampler
        // The default that the specification defines for its variable.
        expect(sampler, equals: SamplerConfiguration(root: root, ratio: 1, isParentBased: isParentBased))
        try expect(tracing("tracing: { sampler: \(name) }\n").sampler.root, equals: root)
    }

    @Test func openTelemetrysVariablesAreASource() throws {
        let configuration = try tracing(environment: [
            "OTEL_EXPORTER_OTLP_ENDPOINT": " https://collector:4318/base/ ",
            "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b%2Cc , other = %C3%BC%3D".replacingOccurrences(
                of: "%C3%BC", with: "u"),
            "OTEL_SERVICE_NAME": "edge",
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,region=eu%2C1,k8s%2Fpod=x",
            "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25",
            "OTEL_BSP_SCHEDULE_DELAY": "200", "OTEL_BSP_MAX_QUEUE_SIZE": "64", "OTEL_METRICS_EXPORTER": "whatever",
            "OTEL_SDK_DISABLED": "",
        ])
        expect(
            configuration,
            equals: TracingConfiguration(
                exporter: .otlp, sampler: SamplerConfiguration(ratio: 0.25, isParentBased: false),
                serviceName: "edge",
                resourceAttributes: [.init(name: "region", value: "eu,1"), .init(name: "k8s/pod", value: "x")],
                otlp: OTLPConfiguration(
                    endpoint: "https://collector:4318/base/v1/traces",
                    headers: [
                        .init(name: "api-key", value: Secret("a b,c")), .init(name: "other", value: Secret("u=")),
                    ], queueLimit: 64, batchLimit: 64, interval: .milliseconds(200))))
    }

    @Test func theVariablesOfTracesGoBeforeThoseOfAllSignals() throws {
        let configuration = try tracing(environment: [
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://all:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces:1",
            "OTEL_EXPORTER_OTLP_HEADERS": "a=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "b=2",
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=named",
        ])
        // Used unchanged, except that an empty path becomes `/`.
        expect(configuration.otlp.endpoint, equals: "http://traces:1/")
        expect(configuration.otlp.headers.map(\.name), equals: ["b"])
        expect(configuration.serviceName, equals: "named")
        expect(configuration.resourceAttributes, equals: [])
    }

    @Test(arguments: [
        (["OTEL_TRACES_EXPORTER": "console"], TracingConfiguration.Exporter.log),
        (["OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"], .none),
        (["OTEL_TRACES_EXPORTER": "otlp"], .otlp),
        (["OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "otlp"], .none),
        (["OTEL_SDK_DISABLED": "False", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"], .otlp),
        (["CLOAKROOM_TRACING_OTLP_ENDPOINT": "http://c:4318/v1/traces"], .otlp),
        (["CLOAKROOM_TRACING_EXPORTER": "log", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"], .log),
    ])
    func anEndpointSwitchesTracesOnUnlessSomethingElseIsSaid(
        _ environment: [String: String], _ exporter: TracingConfiguration.Exporter
    ) throws {
        try expect(tracing(environment: environment).exporter, equals: exporter)
    }

    @Test func theCollectorsAuthorityIsAFileOfOursOrAVariable() throws {
        let directory = try ConfigFixture(
            ConfigFixture.good + "tracing: { otlp: { endpoint: \"https://c/v1/traces\", caFile: ca.crt } }\n")
        try directory.write("-----BEGIN CERTIFICATE-----\n", to: "ca.crt")
        try directory.write("-----BEGIN CERTIFICATE-----\n", to: "other.crt")
        try expect(directory.load().configuration.tracing.otlp.caFile, equals: directory.path + "/ca.crt")
        let variables = [
            "OTEL_EXPORTER_OTLP_CERTIFICATE": directory.path + "/other.crt",
            "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": directory.path + "/ca.crt",
        ]
        try expect(tracing(environment: variables).otlp.caFile, equals: directory.path + "/ca.crt")
        // A value for all signals that is unusable for traces does not prevent the start.
        let all = ["OTEL_EXPORTER_OTLP_CERTIFICATE": directory.path + "/other.crt"]
        try expect(tracing(environment: all).otlp.caFile, equals: directory.path + "/other.crt")
    }

    @Test func anAuthorityForACollectorInTheClearIsAValueError() throws {
        let directory = try ConfigFixture(ConfigFixture.good + "tracing: { otlp: { caFile: ca.crt } }\n")
        try directory.write("-----BEGIN CERTIFICATE-----\n", to: "ca.crt")
        let valueErrors = directory.valueErrors()
        expect(valueErrors.contains { $0.contains("conflicts with an endpoint without TLS") }, "\(valueErrors)")
    }

    @Test func ourOwnSourcesAreStrongerThanOpenTelemetrysAndPrintConfigSaysWhich() throws {
        let directory = try ConfigFixture(ConfigFixture.good + "tracing: { serviceName: file }\n")
        let environment = ["OTEL_SERVICE_NAME": "platform", "OTEL_TRACES_SAMPLER_ARG": "0.5"]
        let loaded = try directory.load(environment: environment)
        func origin(_ key: String) -> String? { loaded.values.first { $0.key == key }?.origin }
        expect(loaded.configuration.tracing.serviceName, equals: "file")
        expect(origin("tracing.serviceName"), equals: directory.path + "/cloakroom.yaml:26:25")
        expect(loaded.configuration.tracing.sampler.ratio, equals: 0.5)
        expect(origin("tracing.ratio"), equals: "environment OTEL_TRACES_SAMPLER_ARG")
        expect(origin("tracing.sampler"), equals: "default")
        // A value that is not used causes no error.
        let overridden = try directory.load(
            environment: ["OTEL_TRACES_SAMPLER_ARG": "x"], overrides: [("tracing.ratio", "0.75")])
        expect(overridden.configuration.tracing.sampler.ratio, equals: 0.75)
    }

    @Test(
        "Rule 22: a wrong field for the collector is reported without its value",
        arguments: [
            "canary", "can ary=x", "a=canary\u{7}", "a=%zzcanary",
        ])
    func wrongHeadersAreNotShown(_ value: String) throws {
        let errors = try valueErrors(environment: ["OTEL_EXPORTER_OTLP_HEADERS": value])
        expect(errors.count == 1 && !errors.description.contains("canary"), "\(errors)")
    }

    @Test(arguments: [
        ("collector:4318/v1/traces", "must be a URL"),
        ("grpc://collector:4317/", "must be an http or https URL"),
        ("http:///v1/traces", "\"http://\" must have a valid host and port"),
        ("http://a:0/v1/traces", "\"http://a:0\" must have a valid host and port"),
        ("http://a b/v1/traces", "\"http://a b\" must have a valid host and port"),
        ("http://a/v1/tra ces", "must be a URL with valid characters in its path"),
        ("http://a/v1?key=canary", "must be a URL without query and fragment"),
    ])
    func anEndpointThatIsNoURLIsFoundAtItsPlace(_ text: String, _ valueError: String) throws {
        let suggestion = " (write one such as http://collector:4318/v1/traces)"
        try expect(
            valueErrors("tracing: { otlp: { endpoint: \"\(text)\" } }\n"),
            equals: [
                "cloakroom.yaml:26:30: tracing.otlp.endpoint: " + valueError + suggestion
            ])
        for name in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
            // Reported twice with the same text if both the exporter and the endpoint depend on it.
            expect(
                Set(try valueErrors(environment: [name: text])),
                equals: ["environment: \(name): " + valueError + suggestion])
        }
    }

    @Test func anEndpointTakesNoPasswordAndHasAPath() throws {
        try expect(
            valueErrors("tracing: { otlp: { endpoint: \"http://user:canary@a/v1\" } }\n"),
            equals: [
                "cloakroom.yaml:26:30: tracing.otlp.endpoint: must be a URL without user and password"
                    + " (put them into headers)"
            ])
        try expect(
            valueErrors("tracing: { otlp: { endpoint: \"http://a:4318\" } }\n"),
            equals: [
                "cloakroom.yaml:26:30: tracing.otlp.endpoint: must be a URL with a path, not \"http://a:4318\""
                    + " (write http://a:4318/v1/traces)"
            ])
    }

    @Test(arguments: [
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "must be one of the allowed values, not \"jaeger_remote\""),
        ("OTEL_TRACES_SAMPLER_ARG", "2", "must be in the allowed range, not 2 (write 0.0 to 1.0)"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "must be a supported exporter, not \"zipkin\""),
        ("OTEL_SDK_DISABLED", "yes", "must be true or false, not \"yes\" (write true or false)"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0", "must be a time in milliseconds, not \"0\" (write 1 to 86400000"),
        ("OTEL_BSP_SCHEDULE_DELAY", "10s", "must be a time in milliseconds, not \"10s\""),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "must be in the allowed range, not 0 (write 1 to 1000000)"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a", "item 1 must be name=value (write name=value, name=value)"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=1,b=%4", "item 2 must be percent-encoded"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=%ff", "item 1 must be percent-encoded"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a b=1", "must be the name of an attribute, not \"a b\""),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=1,a=2", "name must be unique: a (keep one of them)"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,A=2", "name must be unique: a (keep one of them)"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Host=x", "Host is not supported: the exporter sets it"),
    ])
    func aVariableOfOpenTelemetryThatIsWrongIsAValueErrorLikeAnyOther(
        _ name: String, _ value: String, _ valueError: String
    ) throws {
        let valueErrors = Set(try valueErrors(environment: [name: value]))
        expect(valueErrors.count, equals: 1)
        expect(valueErrors.first?.hasPrefix("environment: \(name): \(valueError)"), equals: true, "\(valueErrors)")
    }

    @Test func aWayOfTravellingThatIsNotSpokenIsTold() throws {
        let grpc = ["OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"]
        try expect(
            valueErrors(environment: grpc),
            equals: [
                "environment: OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\" is not supported (write http/protobuf, and the"
                    + " endpoint with the collector's port for it, usually 4318)"
            ])
        try expect(tracing("tracing: { exporter: none }\n", environment: grpc).exporter, equals: .none)
    }

    @Test func oddKeysOfTracingAreToldAtTheirPlaces() throws {
        try expect(
            valueErrors(
                """
                tracing:
                  resourceAttributes: [service.name=x, "a\\nb=1"]
                  otlp:
                    headers: [x]

                """),
            equals: [
                "cloakroom.yaml:27:24: tracing.resourceAttributes.0: service.name"
                    + " conflicts with tracing.serviceName"
                    + " (write tracing.serviceName)",
                "cloakroom.yaml:27:40: tracing.resourceAttributes.1: must be the name of an attribute,"
                    + " not \"a\\u{a}b\""
                    + " (write at most 128 letters, digits, dots, underscores, hyphens and slashes,"
                    + " such as k8s.pod.name)",
                "cloakroom.yaml:29:15: tracing.otlp.headers.0: must be name=value"
                    + " (write name=value such as x-api-key=secret)",
            ])
    }
}

@Suite struct SamplingAndReloadKeysTests {
    @Test func aRoutesShareOfTheAccessLogIsReadAndInRange() throws {
        let yaml = ConfigFixture.good
        try expect(ConfigFixture(yaml).load().configuration.routes.map(\.accessLogRatio), equals: [1, 1])
        let configuration = try ConfigFixture(yaml).load(overrides: [("routes.1.accessLogRatio", "0.1")]).configuration
        expect(configuration.routes.map(\.accessLogRatio), equals: [1, 0.1])
        try expect(
            ConfigFixture(yaml).valueErrors(overrides: [("routes.1.accessLogRatio", "1.5")]),
            equals: [
                "--set: routes.1.accessLogRatio: must be in the allowed range, not 1.5 (write 0.0 to 1.0)"
            ])
    }

    @Test func whenFilesAreLookedAtIsRead() throws {
        try expect(ConfigFixture().load().reload, equals: ReloadConfiguration(interval: .seconds(10)))
        let loaded = try ConfigFixture(ConfigFixture.good + "reload: { interval: 0s }\n").load()
        expect(loaded.reload, equals: ReloadConfiguration(interval: .zero))
        try expect(
            ConfigFixture(ConfigFixture.good + "reload: { interval: 25h }\n").valueErrors(),
            equals: [
                "cloakroom.yaml:26:21: reload.interval: must be in the allowed range, not 25h (write 0s to 1d)"
            ])
    }

    @Test func theFilesOfAConfigurationAreItsOwnAndThoseOfItsSecrets() throws {
        let directory = try ConfigFixture(
            ConfigFixture.good.replacingOccurrences(of: "value: demo", with: "valueFile: token"))
        try directory.write("demo\n", to: "token")
        try expect(directory.load().files, equals: [directory.path + "/cloakroom.yaml", directory.path + "/token"])
    }

    @Test func whatBecomesALabelOfAMetricIsBounded() throws {
        let long = String(repeating: "a", count: 254)
        for (piece, other) in [
            ("name: video", "name: \"(unmatched)\""), ("name: video", "name: \"a\\\"b\""),
            ("name: video", "name: \(String(repeating: "a", count: 65))"),
            ("targets: [\"http://127.0.0.1:9001\"]", "targets: [\"http://\(long):9001\"]"),
        ] {
            try expect(ConfigFixture.valueErrors(replacing: piece, by: other).count, equals: 1, "\(other)")
        }
    }
}
