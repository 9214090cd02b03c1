import CloakroomWire
import NIOCore
import TestSupport

@testable import CloakroomHTTP2

extension HPACKReference {
    /// A decoder with the tables of the RFC.
    static func standard(maxLimit: Int = 4_096) -> HPACKReference {
        HPACKReference(lengths: HuffmanLengths.all, fixed: StaticTable.fields, maxLimit: maxLimit)
    }
}

extension RequestModel {
    /// The request of a head, by its ranges.
    init?(_ head: RequestHead, _ block: RequestBlock) {
        let request = DecodedRequest(head, block)
        let bytes = Array(head.bytes.readableBytesView)
        self.init([
            HPACKReference.Field(":method", "GET"), HPACKReference.Field(":scheme", "https"),
            HPACKReference.Field(":path", "/"), HPACKReference.Field(":authority", "a"),
        ])
        method = request.method
        target = request.target
        fields = head.fields.map { slice in
            var field = HPACKReference.Field("", "")
            field.name = Array(bytes[slice.nameRange.start..<slice.nameRange.end])
            field.value = Array(bytes[slice.valueRange.start..<slice.valueRange.end])
            return field
        }
        switch block.tunnel {
        case .none: tunnel = nil
        case .webSocket: tunnel = "websocket"
        case .other: tunnel = "other"
        }
    }
}
