import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// Fields that the configuration changes in requests and responses.
extension Exchange {
    /// Whether the client uses https. A proxy in front may terminate TLS. The fields may not have been marked yet.
    var isClientSecure: Bool {
        peer.isTrusted && request.head.fields.contains { $0.name == .xForwardedProto }
            ? CrossSitePolicy.isForwardedSecure(request.head) == true : peer.isSecure
    }

    /// Writes what a placeholder in a response stands for: there is only the request id.
    func write(_ value: FieldChanges.Value, into writer: inout HeadWriter) {
        if case .requestID = value { request.writeID(telemetry.record.requestID, into: &writer) }
    }

    /// The lines that the configuration adds to a local response, which keeps its own.
    func configuredLines(besides lines: [UInt8]) -> [UInt8] {
        let config = snapshot.config
        let index = request.routeIndex
        let fields =
            config.routes.indices.contains(index)
            ? config.routes[index].responseFields : index < 0 ? config.responseFields : config.ownFields
        return fields?.lines(besides: lines, isSecure: isClientSecure) { write($0, into: &$1) } ?? []
    }
}
