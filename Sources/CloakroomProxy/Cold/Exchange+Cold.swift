import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore

/// The ways that leave the event loop: the gateway's own endpoints, and sessions that are not at hand. The exchange is
/// parked meanwhile: nothing more is read for it.
extension Exchange {
    /// The request is for one of the gateway's own endpoints: its body is collected first.
    func beginOwn(_ endpoint: OwnEndpoint, now: UInt64) {
        // Nothing here is the other end of a tunnel.
        guard tunnel == .none else { return answer(ProblemDocument(Problem(.notImplemented)), now: now) }
        guard marks.expectation != .unknown else {
            return answer(ProblemDocument(Problem(.expectationFailed)), now: now)
        }
        if case .length(let length) = framing, length > endpoint.bodyLimit {
            return answer(ProblemDocument(Problem(.contentTooLarge)), now: now)
        }
        ownEndpoint = endpoint
        machine.collect()
        if framing == .none {
            requestEnd()
        } else {
            downstream?.setDeadline(now &+ generation.timeouts.bodyIdle)
            if marks.expectation == .continue { downstream?.writeContinue() }
        }
    }

    /// All of the request for an own endpoint is there: it is answered off the event loop.
    func answerOwn() {
        guard let ownEndpoint else { return }
        machine.park()
        downstream?.setDeadline(.max)
        let request = OwnRequest(
            endpoint: ownEndpoint, name: ownEndpoint == .endSession ? lastSegment : nil,
            userAgent: value(of: .userAgent).map { String(decoding: $0, as: UTF8.self) }, ticket: ticket,
            authorization: value(of: .authorization).map { Secret(bytes: $0) },
            contentType: value(of: .contentType).map { String(decoding: $0, as: UTF8.self) },
            body: Secret(bytes: Array(collected.readableBytesView)), traceparent: trace.outgoing?.traceparentText,
            now: context.sessionTime(at: startedAt), wallTime: context.timestamp(at: startedAt),
            origin: RequestOrigin(peer: clientAddress, requestID: "\(record.requestID)"))
        let endpoints = generation.tables.ownEndpoints
        ColdPathBridge.run(self, on: context.eventLoop) {
            await endpoints.answer(request)
        } resume: { exchange, response in
            exchange.answered(with: response)
        }
    }

    /// The session has to be loaded before the request can be decided.
    func loadSession(_ ticket: SessionTicket, route: Int, now: UInt64) {
        machine.park()
        downstream?.setDeadline(.max)
        let store = generation.tables.sessions
        let timestamp = context.sessionTime(at: now)
        ColdPathBridge.run(self, on: context.eventLoop) { () -> Result<SessionLookup, SessionStoreError> in
            do throws(SessionStoreError) {
                return .success(try await store.load(ticket, now: timestamp))
            } catch {
                return .failure(error)
            }
        } resume: { exchange, result in
            exchange.loaded(result, route: route)
        }
    }

    private func loaded(_ result: Result<SessionLookup, SessionStoreError>, route index: Int) {
        guard machine.resume() == .proceed else { return }
        let now = context.beginEvent()
        let entry = generation.tables.routes[index]
        let decision: AuthDecision? =
            switch result {
            case .success(let lookup):
                AuthDecision.decide(entry.access, at: index, now: context.timestamp(at: now), session: lookup)
            case .failure: nil
            }
        guard let decision, decision != .loadSession else {
            // A store that cannot tell signs nobody out.
            record.errorType = .storeUnavailable
            return answer(entry.problem(.storeUnavailable, retryAfter: 1), now: now)
        }
        carryOut(disposition(of: decision, route: index), now: now)
    }

    /// The session holds tokens of another source: it is ended, and the request goes on as one without a session.
    func endSession(_ ticket: SessionTicket, route: Int, now: UInt64) {
        machine.park()
        downstream?.setDeadline(.max)
        let store = generation.tables.sessions
        let timestamp = context.sessionTime(at: now)
        ColdPathBridge.run(self, on: context.eventLoop) {
            // It opens nothing here whether or not the store can be reached.
            _ = try? await store.end(ticket, reason: .sourceGone, now: timestamp)
        } resume: { exchange, _ in
            exchange.loaded(.success(.none(SessionEndReason.sourceGone.unauthorizedReason)), route: route)
        }
    }

    private func answered(with response: OwnResponse) {
        guard machine.resume() == .proceed else { return }
        let now = context.beginEvent()
        var lines: [UInt8] = []
        for field in response.fields { lines += Array("\(field.name): \(field.value)\r\n".utf8) }
        switch response.content {
        case .problem(let problem):
            if problem.status >= 500 { record.errorType = Self.label(of: problem) }
            answer(ProblemDocument(problem), moreFieldLines: lines, now: now)
        case .json(let body):
            lines += Array("Content-Type: application/json\r\nCache-Control: no-store\r\n".utf8)
            answer(status: response.status, title: "OK", fieldLines: lines, body: body, now: now)
        case .none:
            lines += Array("Cache-Control: no-store\r\n".utf8)
            answer(status: response.status, title: "No Content", fieldLines: lines, body: [], now: now)
        }
    }

    private static func label(of problem: Problem) -> ExchangeError {
        switch problem.code {
        case .unreachable: problem.status == 504 ? .upstreamTimeout : .upstreamUnreachable
        case .invalidResponse: .upstreamInvalidResponse
        case .overloaded: .overloaded
        case .storeUnavailable: .storeUnavailable
        default: .internalError
        }
    }

    /// Who asks, where a peer that is believed says that it asks for somebody.
    private var clientAddress: String {
        guard peer.isTrusted else { return peer.address }
        return ClientAddress.find(head, peer: peer.address, trusted: generation.tables.plan.trustedPeers)
    }

    /// What stands behind the last slash of the path.
    private var lastSegment: String {
        var path = scratch
        if !target.isPathRewritten {
            let start = head.bytes.readerIndex + head.target.start + target.path.start
            path = head.bytes.getBytes(at: start, length: target.path.count) ?? []
        }
        return String(decoding: path.split(separator: UInt8(ascii: "/")).last ?? [], as: UTF8.self)
    }

    /// The value of a field that stands once; `nil` if it is not there, or there twice.
    private func value(of name: KnownField) -> [UInt8]? {
        var value: [UInt8]?
        for field in head.fields where field.name == name {
            guard value == nil else { return nil }
            let range = field.valueRange
            value = head.bytes.getBytes(at: head.bytes.readerIndex + range.start, length: range.count)
        }
        return value
    }
}
