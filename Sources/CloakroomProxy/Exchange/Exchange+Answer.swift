import CloakroomCore
import CloakroomTelemetry
import NIOCore

/// Local responses: responses made by the gateway itself.
extension Exchange {
    /// Responds with a problem document.
    func respond(
        _ document: ProblemDocument, allow: String? = nil, moreFieldLines: [UInt8] = [], now: UInt64
    ) {
        var lines = moreFieldLines
        lines += Array("Content-Type: application/problem+json\r\nCache-Control: no-store\r\n".utf8)
        if document.problem.status == 401 { lines += Self.challengeLine }
        if let retryAfter = document.problem.retryAfter { lines += Array("Retry-After: \(retryAfter)\r\n".utf8) }
        if let allow { lines += Array("Allow: \(allow)\r\n".utf8) }
        var body = document.prefix
        body.reserveCapacity(body.count + 32 + document.suffix.count)
        body.append(contentsOf: record.requestID.description.utf8)
        body += document.suffix
        respond(
            status: document.problem.status, title: document.problem.title, fieldLines: lines, body: body, now: now)
    }

    /// Responds with the given status, field lines and body.
    func respond(status: Int, title: String, fieldLines: [UInt8], body: [UInt8], now: UInt64) {
        guard let downstream else { return }
        machine.respondedLocally()
        record.status = UInt16(clamping: status)
        // The client gets a local response, so the upstream's status is recorded as absent.
        if requestSentAt != 0 { record.upstreamStatus = 0 }
        let isToHead = record.method == .head
        record.bytesSent = isToHead ? 0 : UInt64(body.count)
        var fieldLines = fieldLines
        if let lines = snapshot.config.cors.responseFieldLines(originMatch) { fieldLines += lines }
        downstream.writeLocalResponse(
            LocalResponse(status: status, title: title, fieldLines: fieldLines, body: body, date: context.date))
        downstream.flush()
        machine.finish()
        finish(errorType: record.errorType)
        downstream.exchangeCompleted()
    }

    /// An authentication scheme that browsers do not know, so they open no credentials dialog (RFC 9110 §11.6.1).
    private static let challengeLine = Array("WWW-Authenticate: Session realm=\"cloakroom\"\r\n".utf8)
    static let serverMethodsLine = Array("Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n".utf8)
}
