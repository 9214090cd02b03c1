import CloakroomCore
import CloakroomWire

@testable import CloakroomTelemetry

extension ExchangeRecord {
    /// A forwarded request with a session, over HTTP/2 and TLS.
    static var sample: ExchangeRecord {
        var record = ExchangeRecord()
        record.routeIndex = 0
        record.method = .get
        record.status = 200
        record.scheme = .https
        record.protocolVersion = .http2
        record.decision = .forwarded
        record.startWallNanoseconds = 1_767_225_599_005_000_000
        record.durationNanoseconds = 12_345_678
        record.upstreamDurationNanoseconds = 12_000_000
        record.upstreamIndex = 0
        record.bytesReceived = 12
        record.bytesSent = 650
        record.retries = 1
        record.sessionHash = 0xabcdef
        record.traceID = ID128(high: 0x4bf9_2f35_77b3_4da6, low: 0xa3ce_929d_0e0e_4736)
        record.requestID = ID128(high: 0, low: 255)
        record.peerAddress = "192.0.2.7"
        record.tlsVersion = .tls13
        return record
    }
}
