import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

/// Local responses: responses made by the gateway itself.
extension Exchange {
    /// Responds with a problem document, or with a page if the user sees it.
    func respond(
        _ document: ProblemDocument, allow: String? = nil, moreFieldLines: [UInt8] = [], now: UInt64
    ) {
        telemetry.rejected(document.problem.code, document.problem.reason)
        let (document, allow) = peer.decidesFor == nil ? (document, allow) : (document.denying, nil)
        let challenge = decider.challenges(
            for: document.problem, to: request, now: context.wallTime(at: now))
        let moreFieldLines = challenge.isEmpty ? moreFieldLines : moreFieldLines + challenge
        if request.version == .http2, isCall {
            return respond(
                LocalResponse(call: document, moreFieldLines: moreFieldLines, date: context.date), isCall: true)
        }
        let requestID = telemetry.record.requestID
        guard let pages = snapshot.config.errorPages else {
            return respond(
                LocalResponse(
                    document, requestID: requestID, allow: allow, moreFieldLines: moreFieldLines, date: context.date))
        }
        let isShown = FetchMetadata.isShown(&request.head)
        let page =
            isShown
            ? pages.page(
                document.problem, requestID: requestID, of: request,
                links: snapshot.config.links(ofGroup: request.routeGroup)) : nil
        respond(
            LocalResponse(
                document, requestID: requestID, allow: allow, moreFieldLines: moreFieldLines, date: context.date,
                contentLines: page?.fieldLines ?? ErrorPages.documentLines, page: page?.bytes))
    }

    /// Rejects a message that is not a valid request: responds and closes the connection.
    func reject(_ error: WireError, now: UInt64) {
        context.reject(error, from: peer.address)
        reject(Problem(error), as: .invalidRequest, now: now)
    }

    /// Rejects a request whose head did not arrive in time: responds and closes the connection.
    func requestHeadTimedOut(now: UInt64) {
        reject(Problem(.requestTimeout), as: .requestTimeout, now: now)
    }

    private func reject(_ problem: Problem, as error: ExchangeErrorType, now: UInt64) {
        request.resetHead()
        request.begin(.untilClose, upgrade: .none)
        startTelemetry(now: now)
        telemetry.failed(error)
        respond(ProblemDocument(problem), now: now)
    }

    /// Responds to a request that its session, or its absence, does not permit.
    func deny(_ denial: Denial, now: UInt64) {
        telemetry.decided(denial.decision)
        if let event = denial.event {
            context.notPermitted(event, route: snapshot.config.routes[request.routeIndex].route.name)
            telemetry.identified(event.session)
            if let claim = event.claim { telemetry.lacksClaim(claim) }
        }
        switch denial.response {
        case .problem(let document):
            respond(document, moreFieldLines: denial.fieldLines, now: now)
        case .redirect(let path):
            telemetry.rejected(nil, denial.reason)
            // Proxies resolve a path at this gateway, and not at the host of the request.
            let location = peer.decidesFor == nil ? path : originalOrigin + path
            let lines = Array("Location: \(location)\r\nCache-Control: no-store\r\n".utf8)
            respond(status: 303, fieldLines: denial.fieldLines + lines, body: [], now: now)
        }
    }

    /// Responds with a redirect that the configuration demands.
    /// - Parameter isStored: Whether caches may store the response.
    func redirect(_ status: Int, to location: [UInt8], isStored: Bool = true, now: UInt64) {
        telemetry.decided(.redirected)
        let end = isStored ? "\r\n" : "\r\nCache-Control: no-store\r\n"
        respond(
            status: status, fieldLines: Array("Location: ".utf8) + location + Array(end.utf8), body: [], now: now)
    }

    /// Responds with the given status, field lines and body.
    func respond(status: Int, fieldLines: [UInt8], body: [UInt8], now: UInt64) {
        respond(
            LocalResponse(
                status: status, title: Problem.title(of: status), fieldLines: fieldLines, body: body,
                date: context.date))
    }

    /// - Parameter isCall: Whether it responds to a gRPC call, so that its fields are trailers.
    func respond(_ response: LocalResponse, isCall: Bool = false) {
        send(peer.decidesFor.map { response.denying(for: $0) } ?? response, isCall: isCall)
    }

    /// Sends a local response as it is.
    func send(_ response: LocalResponse, isCall: Bool = false) {
        guard let downstream else { return }
        machine.respondedLocally()
        writeHead(response, isCall: isCall)
        downstream.flush()
        machine.finish()
        finish(errorType: telemetry.record.errorType)
        downstream.exchangeCompleted()
    }

    /// Writes a local response, of which a part of the body may follow.
    func writeHead(_ response: LocalResponse, isCall: Bool = false) {
        telemetry.localResponse(status: response.status, bodyLength: response.body.count)
        var response = response
        if !request.rateLines.isEmpty { response.fieldLines += request.rateLines }
        if let lines = snapshot.config.cors.responseFieldLines(request.originMatch) { response.fieldLines += lines }
        // Adding nothing would copy the lines.
        let configured = isCall ? [] : configuredLines(besides: response.fieldLines)
        if !configured.isEmpty { response.fieldLines += configured }
        downstream?.writeLocalResponse(response)
    }

    /// Aborts the response: the client must notice that it is incomplete.
    func abortResponse(_ error: ExchangeErrorType) {
        cancelUpstream()
        let downstream = self.downstream
        machine.finish()
        finish(errorType: error)
        downstream?.abort()
    }
}
