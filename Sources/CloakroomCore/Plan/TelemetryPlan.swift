/// Logs.
public struct LoggingConfiguration: Sendable, Equatable {
    /// How a line looks.
    public enum Format: String, Sendable, Hashable, CaseIterable {
        /// One JSON object a line.
        case json
        /// For a person at a terminal.
        case text
    }

    /// From which level on lines are written: trace, debug, info, notice, warning, error, critical.
    public var level: String
    /// How a line looks.
    public var format: Format
    /// Whether every request gets a line.
    public var accessLog: Bool

    /// Makes a logging plan.
    public init(level: String = "info", format: Format = .json, accessLog: Bool = true) {
        self.level = level
        self.format = format
        self.accessLog = accessLog
    }
}

/// Traces.
public struct TracingConfiguration: Sendable, Equatable {
    /// Where finished spans go.
    public enum Exporter: String, Sendable, Hashable, CaseIterable {
        /// Nowhere: no span is made, and the trace context is still carried on.
        case none
        /// To the log, one line each.
        case log
        /// To a collector, by OTLP over HTTP.
        case otlp
    }

    /// Where finished spans go.
    public var exporter: Exporter
    /// Which traces are recorded.
    public var sampler: SamplerConfiguration
    /// What the gateway is called in traces: the resource attribute `service.name`.
    public var serviceName: String
    /// Further resource attributes, in the order in which they were given.
    public var resourceAttributes: [ResourceAttribute]
    /// The collector.
    public var otlp: OTLPConfiguration

    /// A name and a value that every span of this process carries.
    public struct ResourceAttribute: Sendable, Hashable {
        /// The name, such as `deployment.environment.name`.
        public var name: String
        /// The value.
        public var value: String

        /// Makes an attribute.
        public init(name: String, value: String) {
            self.name = name
            self.value = value
        }
    }

    /// Makes a tracing plan.
    public init(
        exporter: Exporter = .none, sampler: SamplerConfiguration = SamplerConfiguration(),
        serviceName: String = "cloakroom",
        resourceAttributes: [ResourceAttribute] = [], otlp: OTLPConfiguration = OTLPConfiguration()
    ) {
        self.exporter = exporter
        self.sampler = sampler
        self.serviceName = serviceName
        self.resourceAttributes = resourceAttributes
        self.otlp = otlp
    }
}

/// Which traces are recorded; OpenTelemetry's samplers.
public struct SamplerConfiguration: Sendable, Hashable {
    /// What is decided for traces that begin here.
    public enum Root: String, Sendable, Hashable, CaseIterable {
        /// Every trace.
        case alwaysOn = "always_on"
        /// No trace.
        case alwaysOff = "always_off"
        /// The share ``SamplerConfiguration/ratio`` of them, by their ids.
        case traceIDRatio = "traceidratio"
    }

    /// What is decided for traces that begin here.
    public var root: Root
    /// The share, 0...1; read for `traceidratio` alone.
    public var ratio: Double
    /// Whether a trusted peer's decision goes before.
    public var isParentBased: Bool

    /// Makes a sampler: by default one trace in a hundred, or what a trusted peer decided.
    public init(root: Root = .traceIDRatio, ratio: Double = 0.01, isParentBased: Bool = true) {
        self.root = root
        self.ratio = ratio
        self.isParentBased = isParentBased
    }
}

/// How finished spans travel to a collector: OTLP over HTTP with protobuf bodies. Names and defaults are those of the
/// OpenTelemetry SDK's variables `OTEL_EXPORTER_OTLP_*` and `OTEL_BSP_*`.
public struct OTLPConfiguration: Sendable, Equatable {
    /// The whole URL that batches are posted to: `http` or `https`, a host, and a path.
    public var endpoint: String
    /// PEM file of the certificates that an `https` collector's is trusted by; `nil` trusts those that the system does.
    public var caFile: String?
    /// Fields that go with every batch, such as a key of the collector's.
    public var headers: [Header]
    /// For one attempt, 1ms...1d.
    public var timeout: Duration
    /// The most spans that wait; beyond it they are dropped and counted. 1...1,000,000.
    public var queueLimit: Int
    /// The most spans in one batch, 1...``queueLimit``.
    public var batchLimit: Int
    /// The longest that a span waits for others before it is sent, 1ms...1d.
    public var interval: Duration

    /// A field and its value, which may be a key.
    public struct Header: Sendable, Equatable {
        /// The name: a token (RFC 9110 §5.6.2).
        public var name: String
        /// The value: visible ASCII.
        public var value: Secret

        /// Makes a header.
        public init(name: String, value: Secret) {
            self.name = name
            self.value = value
        }
    }

    /// Makes a plan.
    public init(
        endpoint: String = "http://localhost:4318/v1/traces", caFile: String? = nil, headers: [Header] = [],
        timeout: Duration = .seconds(10), queueLimit: Int = 2_048, batchLimit: Int = 512,
        interval: Duration = .seconds(5)
    ) {
        self.endpoint = endpoint
        self.caFile = caFile
        self.headers = headers
        self.timeout = timeout
        self.queueLimit = queueLimit
        self.batchLimit = batchLimit
        self.interval = interval
    }

    /// What TLS with an `https` collector needs beyond the defaults.
    public var tls: UpstreamTLSConfiguration { UpstreamTLSConfiguration(caFile: caFile) }
}
