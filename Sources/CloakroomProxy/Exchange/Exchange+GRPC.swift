import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// gRPC calls (gRPC over HTTP/2): their deadline, and local responses that their clients understand. Everything else is
/// the same as for other requests.
extension Exchange {
    /// A request of a route for gRPC is about to be forwarded.
    /// - Returns: Whether to continue. Otherwise it got a local response.
    func beginCall(now: UInt64) -> Bool {
        guard request.version == .http2 else {
            // There are no trailers that all HTTP/1.1 clients support.
            telemetry.failed(.invalidRequest)
            respond(ProblemDocument(Problem(.versionNotSupported)), now: now)
            return false
        }
        guard let timeout = callTimeout else { return true }
        let limit = callDeadline
        limitTime(to: timeout)
        isDeadlineOfClient = callDeadline != limit
        return true
    }

    /// The time that the client waits, in nanoseconds; `nil` without a valid field.
    private var callTimeout: UInt64? {
        let head = request.head.bytes
        let bytes = head.readableBytesUInt8Span
        for field in request.head.fields where field.isNamed(Self.timeoutName, in: bytes) {
            return GRPCTimeout.nanoseconds(bytes.extracting(field.valueRange.start..<field.valueRange.end))
        }
        return nil
    }

    private static let timeoutName = Array("grpc-timeout".utf8)

    /// Whether the route is for gRPC calls.
    var isForCalls: Bool { route?.route.grpc == true }

    /// Whether the request is a gRPC call, also if no route matched. All calls use POST: for another method a client could
    /// choose by a field that a problem looks like a success.
    var isCall: Bool {
        let routes = snapshot.config.routes
        if routes.indices.contains(request.routeIndex), routes[request.routeIndex].route.grpc { return true }
        guard request.method == .post, let type = request.value(of: .contentType) else { return false }
        return GRPCContentType.matches(type.span)
    }

    /// Reports a response head to the pool; a response that consists of a head alone reports the call's status.
    func reportHead(_ head: borrowing ResponseHead, framing: BodyFraming, of upstream: any UpstreamLease) {
        if framing == .none, isForCalls, let status = GRPCStatus(of: head.fields, in: head.bytes),
            pool?.callEnded(upstream, status: status, sentAt: telemetry.sentAt, after: waitingTime) == true
        {
            return
        }
        pool?.headReceived(
            upstream, status: head.status, sentAt: telemetry.sentAt, after: waitingTime)
    }

    /// Reports the status of a call, which its trailers have.
    func reportCall(_ trailers: TrailerSection, of upstream: any UpstreamLease) {
        guard isForCalls, let status = GRPCStatus(of: trailers.fields, in: trailers.bytes) else { return }
        pool?.callEnded(upstream, status: status, sentAt: telemetry.sentAt, after: nil)
    }
}

extension LocalResponse {
    /// A problem as the result of a gRPC call: its status is in the fields of a response without a body. No cache may store
    /// it, as any problem: its HTTP status is 200.
    init(call document: ProblemDocument, moreFieldLines: [UInt8], date: [UInt8]) {
        let status = GRPCStatus(httpStatus: document.problem.status)
        let wait = document.problem.retryAfter.map { Array("Retry-After: \($0)\r\n".utf8) } ?? []
        self.init(
            status: 200, title: "OK",
            fieldLines: moreFieldLines + wait + Self.notStoredLine
                + status.trailersOnlyLines(message: document.problem.detail),
            body: [], date: date)
    }

    private static let notStoredLine = Array("Cache-Control: no-store\r\n".utf8)
}

extension GRPCStatus {
    /// The status among the fields of a section; `nil` without a known one.
    init?(of fields: some Sequence<FieldSlice>, in buffer: ByteBuffer) {
        let bytes = buffer.readableBytesUInt8Span
        for field in fields where field.isNamed(Self.name, in: bytes) {
            self.init(bytes.extracting(field.valueRange.start..<field.valueRange.end))
            return
        }
        return nil
    }

    private static let name = Array("grpc-status".utf8)
}

extension FieldSlice {
    /// Whether a field without a ``KnownField`` has this name.
    /// - Parameter name: In lower case.
    func isNamed(_ name: [UInt8], in bytes: Span<UInt8>) -> Bool {
        guard self.name == .other, nameRange.count == name.count else { return false }
        for index in 0..<name.count where Byte.lowerCase(bytes[nameRange.start + index]) != name[index] {
            return false
        }
        return true
    }
}
