import CloakroomCore

/// Binds a session to the key of its device, and refreshes the proof: `POST` of `device` below the accounts prefix. Browsers
/// send it by themselves (Device Bound Session Credentials, the draft of 2026-02-17), and apps with a key of their own.
///
/// The ticket alone is not enough for anything here: a key is registered with a challenge that only the response to the
/// sign-in had, and never replaced; a proof needs the key. The session stays whatever fails, and is not extended. No response
/// but 401 makes a browser drop its key, and none is a redirect or 429: Chromium would end its side of the session.
struct DeviceController: Sendable {
    /// How long the lease for saving a key is valid, and how many attempts may fail.
    private static let (leaseDuration, attempts) = (Duration.seconds(2), 3)
    /// The time between two attempts, which doubles.
    private static let (retryDelay, maxDelay) = (Duration.milliseconds(100), Duration.seconds(1))

    let account: AccountController
    let devices: DeviceSessions

    func respond(_ request: AccountRequest) async -> AccountResponse {
        var request = request
        if request.endingTickets.isEmpty { request.ticket = offeredTicket(request) }
        guard let ticket = request.ticket else { return account.unauthorized(.noSession) }
        do throws(SessionStoreError) {
            var admission = try await account.admission(of: request, needsProof: false)
            if case .admitted(let session, _) = admission, session.device == nil {
                // Another replica may have saved the key a moment ago.
                admission = account.clients.rules.admit(
                    try await account.store.reload(ticket, now: request.now), now: request.wallTime)
            }
            switch admission {
            case .admitted(let session, _):
                guard let id = request.device.sessionID else { return try await register(session, ticket, request) }
                guard let binding = session.device, id == Array(session.id.description.utf8) else {
                    // That of an earlier sign-in.
                    return account.unauthorized(.revoked)
                }
                return refresh(session, binding, ticket, request)
            case .missing(let reason): return account.unauthorized(reason)
            case .notCached: throw SessionStoreError(.unavailable)
            case .denied: return account.unauthorized(SessionEndReason.sourceRemoved.unauthorizedReason)
            }
        } catch {
            return account.storeFailure(error)
        }
    }

    /// The ticket in the challenge of a registration without a session cookie; `nil` also if that is too late, or if scripts
    /// could read the challenge.
    private func offeredTicket(_ request: AccountRequest) -> SessionTicket? {
        guard request.device.sessionID == nil, let text = request.device.proof,
            let proof = try? DeviceProof(parsing: text),
            let offer = devices.opened(offer: proof.challenge, at: account.site, now: request.wallTime),
            !offer.isReadable, request.wallTime - offer.issuedAt <= devices.configuration.offer
        else { return nil }
        return offer.ticket
    }

    private func register(
        _ session: Session, _ ticket: SessionTicket, _ request: AccountRequest
    ) async throws(SessionStoreError) -> AccountResponse {
        func rejected(_ reason: DeviceRejection) -> AccountResponse {
            note(.deviceProof(.rejected, session.id, reason: reason), session, request)
            return reason == .limited ? limited : account.problem(.deviceRequired)
        }
        let new: DeviceBinding
        do throws(DeviceRejection) {
            new = DeviceBinding(key: try verified(session, ticket, request).key, boundAt: request.wallTime)
        } catch {
            return rejected(error)
        }
        var binding = session.device
        if binding == nil { binding = try await save(new, session, ticket, request) }
        guard let binding else { return account.unauthorized(.revoked) }
        guard binding.key == new.key else { return rejected(.otherKey) }
        note(.deviceProof(binding == new ? .bound : .repeated, session.id, reason: nil), session, request)
        return response(200, to: session, binding, since: binding.boundAt, request, instructions(session))
    }

    /// Saves the key of a session under the lease of its refresh. While a refresh of its tokens holds the lease, this waits
    /// as long as another refresh would: browsers register a key once, and the session would remain without.
    /// - Returns: The key that the session has, perhaps of a request at the same time; `nil` if the session has ended.
    private func save(
        _ binding: DeviceBinding, _ session: Session, _ ticket: SessionTicket, _ request: AccountRequest
    ) async throws(SessionStoreError) -> DeviceBinding? {
        var (session, failure, failures) = (session, SessionStoreError(.unavailable), 0)
        var (waited, delay) = (Duration.zero, Self.retryDelay)
        while true {
            let now = request.now + waited
            do throws(SessionStoreError) {
                if waited > .zero {
                    guard case .active(let current) = try await account.store.reload(ticket, now: now) else {
                        return nil
                    }
                    if let device = current.device { return device }
                    session = current
                }
                switch try await account.store.lease(session.key, for: Self.leaseDuration, now: now) {
                case .acquired(let lease):
                    if try await save(binding, session, ticket, under: lease, now: now) { return binding }
                    failures += 1
                case .heldByOther: break
                case .notFound: failures += 1
                }
            } catch {
                failure = error
                failures += 1
            }
            guard failures < Self.attempts, waited < account.refreshTimeouts.leaseWait,
                (try? await account.sleep(delay)) != nil
            else { throw failure }
            waited += delay
            delay = min(delay * 2, Self.maxDelay)
        }
    }

    /// - Returns: Whether the key was saved; `false` if the session has changed.
    private func save(
        _ binding: DeviceBinding, _ session: Session, _ ticket: SessionTicket, under lease: RefreshLease,
        now: SessionTime
    ) async throws(SessionStoreError) -> Bool {
        let result = await Result { () async throws(SessionStoreError) in
            try await account.store.save(
                SessionUpdate(device: binding), ticket: ticket, over: session, under: lease, now: now)
        }
        await account.store.release(lease, of: session.key)
        if case .saved = try result.get() { return true }
        return false
    }

    /// The session as the browser has to keep it. The paths of logins need no proof, so that it does not wait for one there.
    private func instructions(_ session: Session) -> AccountResponse.Content {
        let prefix = account.accounts.prefix
        let excluded = ["login", "callback", "page", "logout"].map {
            #"{"type":"exclude","path":\#(JSONString.quoted("\(prefix)/\($0)"))}"#
        }.joined(separator: ",")
        let cookie = account.session.cookie.boundName
        return .json(
            Array(
                (#"{"session_identifier":"\#(session.id)","refresh_url":\#(JSONString.quoted(account.devicePath)),"#
                    + #""scope":{"include_site":false,"scope_specification":[\#(excluded)]},"credentials":"#
                    + #"[{"type":"cookie","name":"\#(cookie)","attributes":"\#(account.cookie.boundAttributes)"}]}"#)
                    .utf8))
    }

    private func refresh(
        _ session: Session, _ binding: DeviceBinding, _ ticket: SessionTicket, _ request: AccountRequest
    ) -> AccountResponse {
        guard request.device.proof != nil else { return challenged(session, nil, request) }
        do throws(DeviceRejection) {
            let issuedAt = try verified(session, ticket, request).issuedAt
            note(.deviceProof(.refreshed, session.id, reason: nil), session, request)
            return response(204, to: session, binding, since: issuedAt, request, .none)
        } catch {
            return challenged(session, error, request)
        }
    }

    /// 403 with a challenge: the client signs it and tries again.
    private func challenged(
        _ session: Session, _ reason: DeviceRejection?, _ request: AccountRequest
    ) -> AccountResponse {
        let rejection = reason == .staleChallenge ? nil : reason
        let outcome: DeviceOutcome = rejection == nil ? .challenged : .rejected
        note(.deviceProof(outcome, session.id, reason: rejection), session, request)
        guard reason != .limited, let challenge = devices.challengeField(for: session.key, now: request.wallTime) else {
            return limited
        }
        return AccountResponse(account.worded(Problem(.deviceRequired)), fields: [challenge])
    }

    /// Verifies the signed proof of a request. It counts as a failure unless it is valid or late.
    /// - Returns: The key that signed it, and when its challenge was issued.
    private func verified(
        _ session: Session, _ ticket: SessionTicket, _ request: AccountRequest
    ) throws(DeviceRejection) -> (key: [UInt8], issuedAt: WallTime) {
        let (address, now) = (request.origin.peer, request.wallTime)
        guard devices.countProof(of: session.id, from: address, now: request.now) else { throw .limited }
        let proof = try DeviceProof(parsing: request.device.proof ?? [])
        let isRegistration = request.device.sessionID == nil
        // The browser itself registers in the mode `no-cors`, and an app sends no mode.
        guard !isRegistration || !request.fetchMetadata.mayHaveScriptFields else { throw .script }
        guard (proof.key != nil) == isRegistration, let key = proof.key ?? session.device?.key else {
            throw .invalidKey
        }
        // Another key is rejected before its signature is verified.
        guard session.device == nil || session.device?.key == key else { throw .otherKey }
        let offer = isRegistration ? devices.opened(offer: proof.challenge, at: account.site, now: now) : nil
        let time =
            isRegistration
            ? offer.flatMap { $0.ticket == ticket ? $0.issuedAt : nil }
            : devices.time(of: proof.challenge, for: session.key, now: now)
        guard let time else { throw .invalidChallenge }
        let isLate = now - time > (isRegistration ? devices.configuration.offer : devices.configuration.lifetime)
        guard isLate || proof.isSigned(by: key) else { throw .invalidSignature }
        devices.proofSucceeded(of: session.id, from: address)
        if isLate { throw .staleChallenge }
        return (key, time)
    }

    /// The response with a proof and the next challenge. Its cookie ends with the proof.
    /// - Parameter start: When the key was registered, or the challenge of the refresh issued: one signed challenge gives access
    ///   for two lifetimes after that, however often it is sent.
    private func response(
        _ status: Int, to session: Session, _ binding: DeviceBinding, since start: WallTime, _ request: AccountRequest,
        _ content: AccountResponse.Content
    ) -> AccountResponse {
        let lifetime = devices.configuration.lifetime
        let end = min(request.wallTime + lifetime, start + lifetime * 2)
        guard let proof = devices.proof(for: session.key, binding, until: end),
            let challenge = devices.challengeField(for: session.key, now: request.wallTime)
        else { return limited }
        let cookie = account.cookie.boundCookieValue(proof, maxAge: max(end - request.wallTime, .zero))
        return AccountResponse(
            status: status, fields: [AccountResponse.Field("Set-Cookie", cookie), challenge], content: content)
    }

    private var limited: AccountResponse { account.problem(.overloaded, retryAfter: AccountController.retryAfter) }

    private func note(_ event: AccountEvent, _ session: Session, _ request: AccountRequest) {
        var origin = request.origin.about(session)
        // The session as it was before.
        if case .deviceProof(.bound, _, _) = event { origin.isBound = true }
        account.observer.accountEvent(event, from: origin)
    }
}
