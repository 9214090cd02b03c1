public import CloakroomCore
import FoundationEssentials
import Glibc
import Tracing

/// What all spans of this process have in common: the attributes of OpenTelemetry's resource.
public struct OTelResource: Sendable {
    /// Names and values, each name once.
    let attributes: [(name: String, value: SpanAttribute)]
    /// The gateway's version, which is also the version of what makes the spans.
    let version: String

    /// Describes this process.
    ///
    /// - Parameters:
    ///   - serviceName: `service.name`.
    ///   - version: `service.version`.
    ///   - attributes: what is to be told besides. They go before what is found out here, such as `host.name`, but not
    ///     before the service's name and what made the spans; of two with one name the later counts.
    public init(serviceName: String, version: String, attributes: [TracingConfiguration.ResourceAttribute] = []) {
        let found: [(String, SpanAttribute)] = [
            ("service.version", .string(version)),
            ("service.instance.id", .string(UUID().uuidString.lowercased())),
            ("host.name", .string(Self.hostName)),
            ("process.pid", .int64(Int64(getpid()))),
        ]
        let fixed: [(String, SpanAttribute)] = [
            ("service.name", .string(serviceName)),
            ("telemetry.sdk.name", .string("cloakroom")),
            ("telemetry.sdk.language", .string("swift")),
            ("telemetry.sdk.version", .string(version)),
        ]
        let given = attributes.map { ($0.name, SpanAttribute.string($0.value)) }
        var values: [String: SpanAttribute] = [:]
        for (name, value) in found + given + fixed { values[name] = value }
        self.attributes = values.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        self.version = version
    }

    private static var hostName: String { ProcessInfo.processInfo.hostName }
}
