import CloakroomConfig
import CloakroomCore
import Foundation
import Testing

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
        #expect(try tracing() == TracingConfiguration())
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
                timeout: 1s
                queueLimit: 10
                batchLimit: 10
                interval: 100ms

            """)
        #expect(
            configuration
                == TracingConfiguration(
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
                        ], timeout: .seconds(1), queueLimit: 10, batchLimit: 10, interval: .milliseconds(100))))
    }

    @Test(arguments: [
        ("always_on", SamplerConfiguration.Root.alwaysOn, false), ("always_off", .alwaysOff, false),
        ("traceidratio", .traceIDRatio, false), ("parentbased_always_on", .alwaysOn, true),
        ("parentbased_always_off", .alwaysOff, true), ("parentbased_traceidratio", .traceIDRatio, true),
    ])
    func eachSamplerIsKnownByItsName(_ name: String, _ root: SamplerConfiguration.Root, _ isParentBased: Bool) throws {
        let sampler = try tracing(environment: ["OTEL_TRACES_SAMPLER": name]).sampler
        // The specification's default for its own variable.
        #expect(sampler == SamplerConfiguration(root: root, ratio: 1, isParentBased: isParentBased))
        #expect(try tracing("tracing: { sampler: \(name) }\n").sampler.root == root)
    }

    @Test func openTelemetrysVariablesAreASource() throws {
        let configuration = try tracing(environment: [
            "OTEL_EXPORTER_OTLP_ENDPOINT": " https://collector:4318/base/ ",
            "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b%2Cc , other = %C3%BC%3D".replacingOccurrences(
                of: "%C3%BC", with: "u"),
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1500", "OTEL_SERVICE_NAME": "edge",
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=other,region=eu%2C1,k8s%2Fpod=x",
            "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25",
            "OTEL_BSP_SCHEDULE_DELAY": "200", "OTEL_BSP_MAX_QUEUE_SIZE": "64", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "32",
            "OTEL_BSP_EXPORT_TIMEOUT": "9", "OTEL_METRICS_EXPORTER": "whatever", "OTEL_SDK_DISABLED": "",
        ])
        #expect(
            configuration
                == TracingConfiguration(
                    exporter: .otlp, sampler: SamplerConfiguration(ratio: 0.25, isParentBased: false),
                    serviceName: "edge",
                    resourceAttributes: [.init(name: "region", value: "eu,1"), .init(name: "k8s/pod", value: "x")],
                    otlp: OTLPConfiguration(
                        endpoint: "https://collector:4318/base/v1/traces",
                        headers: [
                            .init(name: "api-key", value: Secret("a b,c")), .init(name: "other", value: Secret("u=")),
                        ], timeout: .milliseconds(1_500), queueLimit: 64, batchLimit: 32, interval: .milliseconds(200)))
        )
    }

    @Test func theVariablesOfTracesGoBeforeThoseOfAllSignals() throws {
        let configuration = try tracing(environment: [
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://all:4318", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://traces:1",
            "OTEL_EXPORTER_OTLP_HEADERS": "a=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "b=2",
            "OTEL_EXPORTER_OTLP_TIMEOUT": "1", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "2",
            "OTEL_RESOURCE_ATTRIBUTES": "service.name=named",
        ])
        // Taken as it is, but for the path that every URL has.
        #expect(configuration.otlp.endpoint == "http://traces:1/")
        #expect(configuration.otlp.headers.map(\.name) == ["b"])
        #expect(configuration.otlp.timeout == .milliseconds(2))
        #expect(configuration.serviceName == "named")
        #expect(configuration.resourceAttributes == [])
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
        #expect(try tracing(environment: environment).exporter == exporter)
    }

    @Test func theCollectorsAuthorityIsAFileOfOursOrAVariable() throws {
        let directory = try ConfigFixture(
            ConfigFixture.good + "tracing: { otlp: { endpoint: \"https://c/v1/traces\", caFile: ca.crt } }\n")
        try directory.write("-----BEGIN CERTIFICATE-----\n", to: "ca.crt")
        try directory.write("-----BEGIN CERTIFICATE-----\n", to: "other.crt")
        #expect(try directory.load().configuration.tracing.otlp.caFile == directory.path + "/ca.crt")
        let variables = [
            "OTEL_EXPORTER_OTLP_CERTIFICATE": directory.path + "/other.crt",
            "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE": directory.path + "/ca.crt",
        ]
        #expect(try tracing(environment: variables).otlp.caFile == directory.path + "/ca.crt")
        // Set for all signals of a platform, and of no use to this one: no reason not to start.
        let all = ["OTEL_EXPORTER_OTLP_CERTIFICATE": directory.path + "/other.crt"]
        #expect(try tracing(environment: all).otlp.caFile == directory.path + "/other.crt")
    }

    @Test func anAuthorityForACollectorInTheClearIsAValueError() throws {
        let directory = try ConfigFixture(ConfigFixture.good + "tracing: { otlp: { caFile: ca.crt } }\n")
        try directory.write("-----BEGIN CERTIFICATE-----\n", to: "ca.crt")
        let valueErrors = directory.valueErrors()
        #expect(valueErrors.contains { $0.contains("the collector is not reached over TLS") }, "\(valueErrors)")
    }

    @Test func ourOwnSourcesAreStrongerThanOpenTelemetrysAndPrintConfigSaysWhich() throws {
        let directory = try ConfigFixture(ConfigFixture.good + "tracing: { serviceName: file }\n")
        let environment = ["OTEL_SERVICE_NAME": "platform", "OTEL_TRACES_SAMPLER_ARG": "0.5"]
        let loaded = try directory.load(environment: environment)
        func origin(_ key: String) -> String? { loaded.values.first { $0.key == key }?.origin }
        #expect(loaded.configuration.tracing.serviceName == "file")
        #expect(origin("tracing.serviceName") == directory.path + "/cloakroom.yaml:26:25")
        #expect(loaded.configuration.tracing.sampler.ratio == 0.5)
        #expect(origin("tracing.ratio") == "environment OTEL_TRACES_SAMPLER_ARG")
        #expect(origin("tracing.sampler") == "default")
        // What is not read cannot be wrong.
        let overridden = try directory.load(
            environment: ["OTEL_TRACES_SAMPLER_ARG": "x"], overrides: [("tracing.ratio", "0.75")])
        #expect(overridden.configuration.tracing.sampler.ratio == 0.75)
    }

    @Test func headersAreNeverShown() throws {
        let directory = try ConfigFixture(ConfigFixture.good + "tracing: { otlp: { headersFile: headers } }\n")
        try directory.write("x-api-key=canary\n\nx-tenant=canary\n", to: "headers")
        let loaded = try directory.load()
        #expect(loaded.configuration.tracing.otlp.headers.map(\.name) == ["x-api-key", "x-tenant"])
        let value = loaded.values.first { $0.key == "tracing.otlp.headers" }
        #expect(value?.value == "[x-api-key=<redacted>, x-tenant=<redacted>]")
        #expect(value?.origin == "secret file \(directory.path)/headers")
        #expect(!"\(loaded.configuration)".contains("canary"))
        for wrong in ["canary", "can ary=x", "content-type=canary", "a=canary\u{7}", "a=%zzcanary"] {
            let valueErrors = try valueErrors(environment: ["OTEL_EXPORTER_OTLP_HEADERS": wrong])
            #expect(valueErrors.count == 1)
            #expect(!valueErrors.description.contains("canary"), "\(valueErrors)")
        }
    }

    @Test(arguments: [
        ("collector:4318/v1/traces", "is not a URL"),
        ("grpc://collector:4317/", "is not reached by http or https"),
        ("http:///v1/traces", "\"http://\" has no valid host and port"),
        ("http://a:0/v1/traces", "\"http://a:0\" has no valid host and port"),
        ("http://a b/v1/traces", "\"http://a b\" has no valid host and port"),
        ("http://a/v1/tra ces", "has a path with characters that no URL has"),
        ("http://a/v1?key=canary", "the address of a collector takes no query and no fragment"),
    ])
    func anEndpointThatIsNoURLIsFoundAtItsPlace(_ text: String, _ valueError: String) throws {
        let suggestion = " (write one such as http://collector:4318/v1/traces)"
        #expect(
            try valueErrors("tracing: { otlp: { endpoint: \"\(text)\" } }\n") == [
                "cloakroom.yaml:26:30: tracing.otlp.endpoint: " + valueError + suggestion
            ])
        for name in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
            // Twice where the exporter and the endpoint go by it, in the same words.
            #expect(
                Set(try valueErrors(environment: [name: text])) == ["environment: \(name): " + valueError + suggestion])
        }
    }

    @Test func anEndpointTakesNoPasswordAndHasAPath() throws {
        #expect(
            try valueErrors("tracing: { otlp: { endpoint: \"http://user:canary@a/v1\" } }\n") == [
                "cloakroom.yaml:26:30: tracing.otlp.endpoint: the address of a collector takes no user and no password"
                    + " (put them into headers)"
            ])
        #expect(
            try valueErrors("tracing: { otlp: { endpoint: \"http://a:4318\" } }\n") == [
                "cloakroom.yaml:26:30: tracing.otlp.endpoint: \"http://a:4318\" has no path"
                    + " (write http://a:4318/v1/traces)"
            ])
    }

    @Test(arguments: [
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "\"jaeger_remote\" is not one of the choices"),
        ("OTEL_TRACES_SAMPLER_ARG", "2", "2 is out of range (write 0.0 to 1.0)"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "\"zipkin\" is not an exporter that is known here"),
        ("OTEL_SDK_DISABLED", "yes", "\"yes\" is neither true nor false (write true or false)"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "\"10s\" is not a time in milliseconds (write 1 to 86400000"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0", "\"0\" is not a time in milliseconds"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "0 is out of range (write 1 to 1000000)"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4096", "a batch of 4096 spans never fills from a queue of 2048"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a", "item 1 has no equals sign (write name=value, name=value)"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=1,b=%4", "item 2 is not percent-encoded"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=%ff", "item 1 is not percent-encoded"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a b=1", "\"a b\" is not the name of an attribute"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a=1,a=2", "a stands twice (keep one of them)"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,A=2", "a stands twice (keep one of them)"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "Host=x", "Host is the exporter's own to write"),
    ])
    func aVariableOfOpenTelemetryThatIsWrongIsAValueErrorLikeAnyOther(
        _ name: String, _ value: String, _ valueError: String
    ) throws {
        let valueErrors = Set(try valueErrors(environment: [name: value]))
        #expect(valueErrors.count == 1)
        #expect(valueErrors.first?.hasPrefix("environment: \(name): \(valueError)") == true, "\(valueErrors)")
    }

    @Test func aWayOfTravellingThatIsNotSpokenIsTold() throws {
        let grpc = ["OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"]
        #expect(
            try valueErrors(environment: grpc) == [
                "environment: OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\" is not spoken here (write http/protobuf, and the"
                    + " endpoint with the collector's port for it, usually 4318)"
            ])
        #expect(try tracing("tracing: { exporter: none }\n", environment: grpc).exporter == .none)
    }

    @Test func oddKeysOfTracingAreToldAtTheirPlaces() throws {
        #expect(
            try valueErrors(
                """
                tracing:
                  resourceAttributes: [service.name=x, "a\\nb=1"]
                  otlp:
                    queueLimit: 8
                    batchLimit: 9
                    headers: [x]

                """) == [
                    "cloakroom.yaml:27:24: tracing.resourceAttributes.0: service.name has a key of its own"
                        + " (write tracing.serviceName)",
                    "cloakroom.yaml:27:40: tracing.resourceAttributes.1: \"a\\u{a}b\" is not the name of an attribute"
                        + " (write at most 128 letters, digits, dots, underscores, hyphens and slashes,"
                        + " such as k8s.pod.name)",
                    "cloakroom.yaml:30:17: tracing.otlp.batchLimit: a batch of 9 spans never fills from a queue of 8"
                        + " (make it 8 or less, or raise queueLimit)",
                    "cloakroom.yaml:31:15: tracing.otlp.headers.0: has no equals sign"
                        + " (write name=value such as x-api-key=secret)",
                ])
    }
}

@Suite struct SamplingAndReloadKeysTests {
    @Test func aRoutesShareOfTheAccessLogIsReadAndInRange() throws {
        let yaml = ConfigFixture.good
        #expect(try ConfigFixture(yaml).load().configuration.routes.map(\.accessLogRatio) == [1, 1])
        let configuration = try ConfigFixture(yaml).load(overrides: [("routes.1.accessLogRatio", "0.1")]).configuration
        #expect(configuration.routes.map(\.accessLogRatio) == [1, 0.1])
        #expect(
            try ConfigFixture(yaml).valueErrors(overrides: [("routes.1.accessLogRatio", "1.5")]) == [
                "--set: routes.1.accessLogRatio: 1.5 is out of range (write 0.0 to 1.0)"
            ])
    }

    @Test func whenFilesAreLookedAtIsRead() throws {
        #expect(try ConfigFixture().load().reload == ReloadConfiguration(watchesFiles: true, interval: .seconds(10)))
        let loaded = try ConfigFixture(ConfigFixture.good + "reload: { watch: false, interval: 1s }\n").load()
        #expect(loaded.reload == ReloadConfiguration(watchesFiles: false, interval: .seconds(1)))
        #expect(
            try ConfigFixture(ConfigFixture.good + "reload: { interval: 0s }\n").valueErrors() == [
                "cloakroom.yaml:26:21: reload.interval: 0s is out of range (write 100ms to 1d)"
            ])
    }

    @Test func theFilesOfAConfigurationAreItsOwnAndThoseOfItsSecrets() throws {
        let directory = try ConfigFixture(
            ConfigFixture.good.replacingOccurrences(of: "value: demo", with: "valueFile: token"))
        try directory.write("demo\n", to: "token")
        #expect(try directory.load().files == [directory.path + "/cloakroom.yaml", directory.path + "/token"])
    }

    @Test func whatBecomesALabelOfAMetricIsBounded() throws {
        let long = String(repeating: "a", count: 254)
        for (piece, other) in [
            ("name: video", "name: \"(unmatched)\""), ("name: video", "name: \"a\\\"b\""),
            ("name: video", "name: \(String(repeating: "a", count: 65))"),
            ("targets: [\"http://127.0.0.1:9001\"]", "targets: [\"http://\(long):9001\"]"),
        ] {
            #expect(try ConfigFixture.valueErrors(replacing: piece, by: other).count == 1, "\(other)")
        }
    }
}
