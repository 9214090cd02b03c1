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

    /// What a placeholder stands for; `nil` without such a value. Bytes of clients and users are percent-encoded: those
    /// of the path by its normal form, the others as claims are.
    func fieldValue(_ value: FieldChanges.Value, _ permit: UpstreamPermit?) -> [UInt8]? {
        switch value {
        case .requestID:
            // As the upstream receives it.
            guard let range = request.summary.requestID else {
                return Array(telemetry.record.requestID.description.utf8)
            }
            let bytes = request.head.bytes
            return bytes.getBytes(at: bytes.readerIndex + range.start, length: range.count)
        case .clientAddress: return Array(clientAddress.utf8)
        case .userID:
            guard let id = permit?.session?.user.account.userID, case .value(let text) = ClaimFieldValue.of(.string(id))
            else { return nil }
            return Array(text.utf8)
        case .segment(let slashes):
            var rest = request.normalPath[...]
            for _ in 0..<slashes {
                guard let slash = rest.firstIndex(of: UInt8(ascii: "/")) else { return nil }
                rest = rest[(slash + 1)...]
            }
            return Array(rest.prefix { $0 != UInt8(ascii: "/") })
        }
    }

    /// The lines that the configuration adds to a local response, which keeps its own.
    func configuredLines(besides lines: [UInt8]) -> [UInt8] {
        let config = snapshot.config
        let index = request.routeIndex
        let fields =
            config.routes.indices.contains(index)
            ? config.routes[index].responseFields : index < 0 ? config.responseFields : config.ownFields
        return fields?.lines(besides: lines, isSecure: isClientSecure) { fieldValue($0, nil) } ?? []
    }
}
