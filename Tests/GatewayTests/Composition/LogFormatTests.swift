import CloakroomCore
import CloakroomTelemetry
import TestSupport
import Testing

@testable import cloakroom

@Suite("The format of log lines")
struct LogFormatTests {
    @Test(
        "Without logging.format it is text on a terminal, otherwise JSON",
        arguments: [
            (nil, true, .text), (nil, false, .json), (.json, true, .json), (.text, false, .text),
        ] as [(LoggingConfiguration.Format?, Bool, LoggingConfiguration.Format)])
    func format(
        configured: LoggingConfiguration.Format?, isTerminal: Bool, expected: LoggingConfiguration.Format
    ) {
        var configuration = GatewayConfiguration.defaults
        configuration.logging.format = configured
        expect(TelemetrySettings(configuration, isTerminal: isTerminal).logFormat, equals: expected)
    }
}
