import Foundation
import TestSupport
import Testing

@Suite("Each row of Troubleshooting.md is provoked by a test")
struct TroubleshootingTests {
    /// The beginning of each row, up to 60 characters of its cells before the cause, and a test that provokes the cause.
    private static let provoked = """
        unknown key (did you mean …) = ConfigDiagnosticTests.oneLine
        required key missing (write it) = ConfigDiagnosticTests.oneLine
        no configuration: neither … exists = ConfigPlaceTests.nothing
        session cookies and passwords would be sent unencrypted = ConfigDiagnosticTests.oneLine
        passwords and tokens would be sent unencrypted (a warning) = UpstreamTargetsSectionTests.clearText
        must be true unless all listeners are on loopback = ConfigDiagnosticTests.oneLine
        keyFile: … of identities.NAME.client = ClientAssertionSignerTests.badFiles
        requires a session, but no upstream defines signIn = ConfigDiagnosticTests.oneLine
        … call of upstream …, which is never forwarded = WideRouteRulesTests.named
        address already in use = StartFailureTests.ports
        no permission to listen on port 443 = StartFailureTests.permission
        do not match: the key belongs to another certificate = TLSFilesTests.otherKey
        is a reference to a variable = VariableReferenceTests.inTheFile
        must not be a published placeholder = VariableReferenceTests.placeholders
        a query is not part of a path, never occurs: paths are compa = PathPatternTests.bad
        no route: every request gets 404 (a warning) = ReportTests.aConfigurationWithoutRoutesIsWarnedAbout
        metrics and the status page can be read by every client (a w = AdminSectionTests.readable
        match the same paths and neither is more specific = RouteConflictTests.overlapping
        502 | unreachable | upstream_unreachable = UpstreamFailureTests.unreachable
        502 | failed_request | upstream_reset = RetryTests.post
        502 | failed_request | upstream_invalid_response = KeptRejectionTests.failures
        502 | invalid_response | = UpstreamFailureTests.nonsense
        502 | identity_misconfigured | = SignInTests.misconfigured
        502, 504 | unreachable at POST /auth | upstream_unreachable, = UpstreamFailureTests.rejected
        502, 503, 504 | unreachable with Retry-After | upstream_unre = TokenRefreshTests.scenario
        503 | overloaded | overloaded = UpstreamFailureTests.exhausted
        503 | store_unavailable | store_unavailable = StoreTests.awayAtStart
        502 | identity_misconfigured with a session of a provider | = ProviderRefreshTests.wrongClientSecretEndsNothing
        502, 503 | login_failed, identity_unavailable | = FailedCallbackTests.redemptionFails
        503 | overloaded at POST /auth | = SignInTests.storeFails
        504 | unreachable | upstream_timeout = DeadlineTests.silence
        no_session = KeptRejectionTests.unauthorized
        expired_idle = SessionTests.timeouts
        expired_absolute = SessionTests.timeouts
        revoked = DeniedRequestTests.ended
        refresh_rejected = TokenRefresherTests.rejected
        unproven = DeviceTests.unproven
        invalid_credentials = SignInTests.rejected
        none, code is step_up = DeniedRequestTests.challenge
        none, and another content type = TokenRefreshTests.foreign401EndsNoSession
        400 bad_request | malformed_callback = CallbackControllerTests.malformed
        400 login_expired | no_pending_login = LoginWhyTests.failed
        400 login_expired | used = CallbackControllerTests.callbackCannotBeReplayed
        400 login_expired | app_token_invalid = AppLoginTests.values
        400 login_expired | app_code_invalid, app_removed = AppLoginTests.removed
        400 login_expired | other_client = AppLoginTests.stolenCode
        403 login_refused | access_denied, login_required, interacti = LoginWhyTests.failed
        403 login_refused | logged_out = BackChannelControllerTests.logoutDuringCallbackWins
        403 step_up_failed | step_up, unmet_authentication_requireme = StepUpTests.providerThatIgnoresAcrIsCaught
        403 step_up_failed | other_user = StepUpTests.otherUser
        502 login_failed | issuer_mismatch, issuer_missing = CallbackControllerTests.mixUpIsRefused
        502 login_failed | issuer_missing:CODE = CallbackControllerTests.mixUpIsRefused
        502 login_failed | other_identity = CallbackControllerTests.mixUpIsRefused
        502 login_failed | invalid_request, invalid_scope, unauthori = FailedCallbackTests.providerErrors
        502 login_failed | invalid_grant = FailedCallbackTests.redemptionFails
        502 login_failed | provider_error = FailedCallbackTests.providerErrors
        502 login_failed | wrong_nonce, wrong_audience, expired, inv = LoginWhyTests.failed
        502 login_failed | invalid_response, no_id_token = CodeRedemptionTests.rejected
        502 login_failed | claims_too_large = FailedCallbackTests.redemptionFails
        502 login_failed | unsupported_claim:NAME = FailedCallbackTests.unrepresentableClaim
        502 login_failed | session_too_short = FailedCallbackTests.sessionIsTooShort
        502 login_failed | other_subject = CodeRedemptionTests.rejectedUserInfo
        502 identity_misconfigured | invalid_client, unauthorized_cl = LoginWhyTests.failed
        502 identity_misconfigured | unsupported_grant_type, invalid = ProviderRefreshTests.wrongClientSecretEndsNothing
        502 identity_misconfigured | token_too_short = FailedCallbackTests.tokenIsTooShort
        502 identity_misconfigured | login_too_long = StepUpTests.longName
        503 identity_unavailable | push_unavailable, provider_not_re = LoginWhyTests.away
        503 identity_unavailable | code_unavailable, user_unavailabl = LoginWhyTests.failed
        503 identity_unavailable | temporarily_unavailable, server_e = FailedCallbackTests.providerErrors
        503 store_unavailable | store_unavailable = FailedCallbackTests.storeFailsLate
        503 overloaded | store_full = FailedCallbackTests.storeFailsLate
        429 throttled | throttled = FailedCallbackTests.counted
        the provider's own page reports a wrong redirect URI = MockProviderTests.invalidRequests
        a loop between gateway and provider = DeniedRequestTests.location
        401 instead of a redirect = DeniedRequestTests.xhrIsNeverRedirected
        403 when /auth/login is opened = LoginControllerTests.xhrIsNeverRedirected
        403 missing_claim = DeniedResponseTests.missingClaim
        403 wrong_identity = DeniedResponseTests.scenario
        a sign-out at the provider ends no session = BackChannelControllerTests.sessionWithoutName
        the provider asks whether to sign out = ProviderLogoutTests.longHint
        all sessions end when the client's secret is wrong = ProviderRefreshTests.endsOn
        not_found = WhyCommandTests.explained
        not_found with "decision":"file" in the access log, no_file = FileServingTests.vanished
        method_not_allowed = RequestDeciderTests.unserved
        misdirected = HostTests.listeners
        bad_request = KeptRejectionTests.failures
        content_too_large = UploadTests.notForwarded
        target_too_long = LimitTests.excess
        header_fields_too_large = LimitTests.excess
        unsupported_media_type = SignInTests.otherType
        invalid_input = SignInTests.invalid
        throttled = ThrottledSignInTests.throttles
        too_many_requests = RequestCapsTests.address
        rate_limited = RateLimitTests.log
        request_timeout, or client_too_slow in error of the access l = SlowClientTests.slowUpload
        invalid_dpop_proof = AccessTokenTests.dpop
        use_dpop_nonce = AccessTokenTests.dpop
        invalid_token = AccessTokenTests.journey
        insufficient_scope = BearerRouteTests.scenario
        device_required = DeviceTests.requiredByRoute
        https_required = RewritingTests.redirecting
        expectation_failed = MethodAndTargetTests.unknownExpectation
        not_implemented = MalformedRequestTests.rejected
        version_not_supported = MalformedRequestTests.rejected
        internal_error in error of the access log = RejectionReportTests.reasons
        invalid_client with the right secret = RequestCredentialsTests.clientBasic
        invalid_request or unsupported_grant_type = RejectedCallTests.misconfigured
        invalid_response with status 200 = UpstreamFailureTests.nonsense
        Every wrong password is 502 = RejectedCallTests.oauthSignIn
        A wrong client secret ends sessions = RejectedCallTests.any400
        An invalid refresh token ends no session = RejectedCallTests.oauthWithoutCode
        ejected = TargetOutcomeTests.status
        backing_off = CircuitStatusTests.status
        down = UpstreamSupervisorTests.failingTarget
        warming = UpstreamReporterTests.lines
        draining = UpstreamBoardPhaseTests.superseded
        up = UpstreamExplanationTests.candidatesAreListedByTierWithTheirShares
        refused = HealthTests.readyAndGone
        closed at once = ConnectionLimitTests.perAddress
        hangs = ConnectionLimitTests.pausing
        TLS alert = ProtocolTests.versionsBelowTheLeastAreRejected
        """

    private static let root = (0..<4).reduce(URL(fileURLWithPath: #filePath)) { url, _ in
        url.deletingLastPathComponent()
    }

    /// The rows of all tables.
    private static func rows() throws -> [String] {
        let file = root.appending(path: "Sources/cloakroom/Documentation.docc/Troubleshooting.md")
        let lines = try String(contentsOf: file, encoding: .utf8).replacing("`", with: "").split(
            separator: "\n", omittingEmptySubsequences: false)
        let titles: Set = ["cause", "possible causes", "what to check"]
        var rows: [String] = []
        var count = 0
        for (index, line) in lines.enumerated() {
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().map {
                $0.trimmingCharacters(in: .whitespaces)
            }
            if index + 1 < lines.count, lines[index + 1].hasPrefix("| ---") {
                count = try require(cells.firstIndex { titles.contains($0) }, "\(line)")
            } else if line.hasPrefix("|"), !line.hasPrefix("| ---") {
                rows.append(shortened(cells.prefix(count).joined(separator: " | ")))
            }
        }
        return rows
    }

    private static func shortened(_ text: String) -> String {
        text.prefix(60).trimmingCharacters(in: .whitespaces)
    }

    /// The files of all tests by their name.
    private static func files() throws -> [String: [String]] {
        let folder = root.appending(path: "Tests")
        let paths = try require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        var files: [String: [String]] = [:]
        for case let url as URL in paths where url.pathExtension == "swift" {
            files[url.deletingPathExtension().lastPathComponent, default: []].append(
                try String(contentsOf: url, encoding: .utf8))
        }
        return files
    }

    @Test("No row is without a test, no test is missing, and none is of a row that the page does not have")
    func complete() throws {
        let entries = Self.provoked.split(separator: "\n").map { $0.split(separator: " = ").map(String.init) }
        let rows = try Self.rows()
        expect(entries.map { Self.shortened($0[0]) }, equals: rows)
        let files = try Self.files()
        for entry in entries {
            let name = entry[1].split(separator: ".").map(String.init)
            let tests = (files[name[0]] ?? []).flatMap { $0.split(separator: "@Test").dropFirst() }
            expect(tests.contains { $0.contains("func \(name[1])(") }, "\(entry[0]): \(entry[1])")
        }
    }
}
