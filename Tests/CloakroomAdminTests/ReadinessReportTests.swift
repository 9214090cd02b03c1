import TestSupport
import Testing

@testable import CloakroomAdmin

@Suite("Readiness report")
struct ReadinessReportTests {
    @Test("Without checks the gateway is ready")
    func empty() async {
        await expect(ReadinessReport.make([]).isReady)
    }

    @Test("A check without a result in time fails")
    func late() async {
        let never = ReadinessProbe(name: "store") {
            // Ends when it is cancelled, which happens at the time limit.
            try? await Task.sleep(for: .seconds(3_600))
            return true
        }
        let report = await ReadinessReport.make([never], timeLimit: .milliseconds(1))
        expect(report.checks, equals: [ReadinessCheck(name: "store", isReady: false, detail: "timed out")])
        expect(!report.isReady)
    }

    @Test("Results are in the order of the checks, not of their completion")
    func order() async {
        let probes = (0..<10).map { index in
            ReadinessProbe(name: "\(index)") {
                for _ in 0..<(10 - index) { await Task.yield() }
                return index != 4
            }
        }
        let report = await ReadinessReport.make(probes, timeLimit: .seconds(60))
        expect(report.checks.map(\.name), equals: (0..<10).map(String.init))
        expect(!report.isReady)
    }
}
